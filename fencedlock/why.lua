-- KEYS[1] the mark of a forced release, see force.lua
-- ARGV[1] the whole value that a lost lock had
--
-- forced | absent
return redis.call('GET', KEYS[1]) == ARGV[1] and 'forced' or 'absent'
