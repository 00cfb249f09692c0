-- KEYS[1] the lock  KEYS[2] the counter; see acquire.lua
-- ARGV[1] the whole value that the lock has at a majority
-- ARGV[2] lease in ms
-- ARGV[3] the newest fence that this tenure has reserved
--
-- renewed | taken
--
-- Puts a lock that a majority keeps also into a node that was not there when it
-- was acquired, or has lost it since. It issues no fence, so that a counter which
-- is equal is no obstacle; a newer one is that of a newer tenure.
if redis.call('GET', KEYS[1]) then return 'taken' end
local counter = redis.call('GET', KEYS[2])
if counter then
  if counter ~= '0' and not string.find(counter, '^[1-9]%d*$') then return 'taken' end
  -- include below.lua

  if below(ARGV[3], counter) then return 'taken' end
end
redis.call('SET', KEYS[2], ARGV[3], 'PX', '604800000')
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'renewed'
