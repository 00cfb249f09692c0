-- KEYS[1] the lock
-- ARGV[1] holder
-- ARGV[2] the newest fence of that holder which is not wanted any more
--
-- released | absent | taken
--
-- Takes back at one node of a quorum what was accepted there. The bound makes it
-- harmless when it comes late, after a newer proposal of the same holder.
local lock = redis.call('GET', KEYS[1])
if not lock then return 'absent' end
local holder, fence = string.match(lock, '^([^:]+):([1-9]%d*):')
if holder ~= ARGV[1] then return 'taken' end
-- include below.lua

if below(ARGV[2], fence) then return 'taken' end
redis.call('DEL', KEYS[1])
return 'released'
