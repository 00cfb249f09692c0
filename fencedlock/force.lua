-- KEYS[1] the lock, see acquire.lua
-- KEYS[2] the mark that tells the old holder why it lost the lock: the whole
--   value that was there. It expires when the old lease would have.
-- ARGV[1] holder  ARGV[2] label  ARGV[3] lease in ms
-- ARGV[4] the fence of the tenure to end
--
-- granted <fence> | held <fence> <ms left> <label> | absent | broken lock
--
-- Puts another holder into the lock, with the fence of the old one: acquire.lua
-- is to replace that at once, and is the only place where fences are made.
local lock = redis.call('GET', KEYS[1])
if not lock then return 'absent' end
local holder, fence, label = string.match(lock, '^([^:]+):([1-9]%d*):(.*)$')
if not holder then return 'broken lock' end
if holder == ARGV[1] then return 'granted ' .. fence end
local left = redis.call('PTTL', KEYS[1])
if fence ~= ARGV[4] then return 'held ' .. fence .. ' ' .. left .. ' ' .. label end
if left <= 0 then left = 86400000 end
redis.call('SET', KEYS[2], lock, 'PX', left)
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence .. ':' .. ARGV[2], 'PX', ARGV[3])
return 'granted ' .. fence
