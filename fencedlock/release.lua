-- KEYS[1] the lock  KEYS[2] the counter  KEYS[3] the queue; see acquire.lua
-- ARGV[1] holder
-- ARGV[2] proposal: the fence for the next in the queue
-- ARGV[3] the holder's own entry in the queue, to leave it; may be absent
--
-- released | absent | taken
--
-- Compares the holder alone: after a lost answer nobody knows the fence. Who is
-- first in the queue has the lock when this returns.
local lock = redis.call('GET', KEYS[1])
if ARGV[3] then redis.call('LREM', KEYS[3], 0, ARGV[3]) end
if not lock then return 'absent' end
if string.sub(lock, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then return 'taken' end
if redis.call('LLEN', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 'released'
end
-- include grant.lua

local fence, spare = mint(ARGV[2], 7)
if not fence or not grant(fence, spare) then redis.call('DEL', KEYS[1]) end
return 'released'
