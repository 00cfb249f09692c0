-- KEYS[1] the lock
-- ARGV[1] holder
--
-- released | absent | taken
--
-- Compares the holder alone: after a lost answer nobody knows the fence.
local lock = redis.call('GET', KEYS[1])
if not lock then return 'absent' end
if string.sub(lock, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then return 'taken' end
redis.call('DEL', KEYS[1])
return 'released'
