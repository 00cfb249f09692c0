-- One node of a quorum accepts a fence that the client proposes to all nodes, or
-- refuses it.
--
-- KEYS[1] the lock  KEYS[2] the counter, the newest fence accepted; see acquire.lua
-- ARGV[1] holder  ARGV[2] label  ARGV[3] lease in ms
-- ARGV[4] proposal  ARGV[5] the newest of the fences that it reserves: itself, or
--   some more
--
-- granted <proposal> | held <fence> <ms left> <label> | behind <counter>
-- broken lock|counter|fence
--
-- Strict: what is not above the counter is refused, so that no fence is ever
-- accepted twice. A held lock leaves the counter alone: those who wait do not
-- drive it up. A request that comes again, or late, finds its own lock, or a
-- counter that has reached it.
local lock, ttl = redis.call('GET', KEYS[1]), ARGV[3]
local counter = redis.call('GET', KEYS[2])
if lock then
  local holder, current, label = string.match(lock, '^([^:]+):([1-9]%d*):(.*)$')
  if not holder then return 'broken lock' end
  local left = redis.call('PTTL', KEYS[1])
  if holder ~= ARGV[1] then return 'held ' .. current .. ' ' .. left .. ' ' .. label end
  if left > tonumber(ttl) then ttl = left end
  if current == ARGV[4] and counter then
    redis.call('PEXPIRE', KEYS[1], ttl)
    return 'granted ' .. current
  end
end
if counter and counter ~= '0' and not string.find(counter, '^[1-9]%d*$') then return 'broken counter' end
-- Numbers of Lua are rounded: that makes some equal, and never swaps them.
if #ARGV[5] > 18 or counter and tonumber(counter) >= tonumber(ARGV[4]) then
  -- include below.lua

  if not below(ARGV[5], '4611686018427387904') then return 'broken fence' end
  if counter and not below(counter, ARGV[4]) then return 'behind ' .. counter end
end
redis.call('SET', KEYS[2], ARGV[5], 'PX', '604800000')
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[4] .. ':' .. ARGV[2], 'PX', ttl)
return 'granted ' .. ARGV[4]
