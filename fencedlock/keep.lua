-- KEYS[1] the lock
-- ARGV[1] holder  ARGV[2] for how long the lock is to stay, in ms
--
-- released | absent | taken
--
-- Leaves the lock in place of releasing it. Its holder renews it no more.
local lock = redis.call('GET', KEYS[1])
if not lock then return 'absent' end
if string.sub(lock, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then return 'taken' end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'released'
