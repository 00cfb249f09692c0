-- KEYS[1] the lock  KEYS[2] the counter  KEYS[3] the queue; see acquire.lua
--
-- held <fence> <ms left> <queued> <newest> <label> | free <queued> <newest>
-- broken lock
--
-- newest is what the counter holds, 0 without one. Changes nothing.
local lock = redis.call('GET', KEYS[1])
local queued = redis.call('LLEN', KEYS[3])
local newest = redis.call('GET', KEYS[2]) or '0'
if not lock then return 'free ' .. queued .. ' ' .. newest end
local fence, label = string.match(lock, '^[^:]+:([1-9]%d*):(.*)$')
if not fence then return 'broken lock' end
local left = redis.call('PTTL', KEYS[1])
return 'held ' .. fence .. ' ' .. left .. ' ' .. queued .. ' ' .. newest .. ' ' .. label
