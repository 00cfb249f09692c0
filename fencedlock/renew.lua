-- KEYS[1] the lock
-- ARGV[1] the whole value that the caller believes to be there
-- ARGV[2] lease in ms
--
-- renewed | absent | taken
--
-- Never creates the lock again and never shortens the lease.
local lock = redis.call('GET', KEYS[1])
if not lock then return 'absent' end
if lock ~= ARGV[1] then return 'taken' end
local ttl = tonumber(ARGV[2])
local left = redis.call('PTTL', KEYS[1])
if left > ttl then ttl = left end
redis.call('PEXPIRE', KEYS[1], ttl)
return 'renewed'
