-- KEYS[1] the lock
-- KEYS[2] what the lock was when an operator ended it, see force.lua
-- ARGV[1] the whole value that the caller believes to be there
-- ARGV[2] lease in ms
--
-- renewed | absent | taken | forced
--
-- Never creates the lock again and never shortens the lease.
local lock = redis.call('GET', KEYS[1])
if lock ~= ARGV[1] then
  if redis.call('GET', KEYS[2]) == ARGV[1] then return 'forced' end
  return lock and 'taken' or 'absent'
end
local ttl = tonumber(ARGV[2])
local left = redis.call('PTTL', KEYS[1])
if left > ttl then ttl = left end
redis.call('PEXPIRE', KEYS[1], ttl)
return 'renewed'
