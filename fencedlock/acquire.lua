-- KEYS[1] the lock, holder:fence:label, expires with the lease
-- KEYS[2] the counter, the newest fence issued, expires seven days after it was
--   last used. Losing it is harmless: the next fence is proposed from the clock,
--   which is above every fence of seven days ago.
-- KEYS[3] the queue, a list of holder:waker:ttl:label in the order of arrival;
--   expires when nobody in it has asked for a while
-- ARGV[1] holder  ARGV[2] label  ARGV[3] lease in ms
-- ARGV[4] proposal: the fence to issue when the counter is not already there
-- ARGV[5] least: the smallest fence that the stores still accept; 0 for any
-- ARGV[6] waker, of a caller that queues when the lock is not free; may be absent
--
-- granted <fence> [<spare>] | held <fence> <ms left> <label>
-- queued <fence> <ms left> <place> <label> | broken lock|counter|fence
--
-- Lua numbers are doubles: fences stay decimal strings, INCR does the sums.
-- All checks come before the first write, the counter before the lock.
local lock = redis.call('GET', KEYS[1])

-- The usual case first: free, nobody waits, the clock is ahead of the counter.
-- It needs none of the functions below, whose making costs a fifth of all this.
if not lock and ARGV[5] == '0' and #ARGV[4] <= 18 and redis.call('LLEN', KEYS[3]) == 0 then
  local counter = redis.call('GET', KEYS[2])
  if not counter or string.find(counter, '^[1-9]%d*$') and tonumber(counter) < tonumber(ARGV[4]) then
    redis.call('SET', KEYS[2], ARGV[4], 'PX', '604800000')
    redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[4] .. ':' .. ARGV[2], 'PX', ARGV[3])
    return 'granted ' .. ARGV[4]
  end
end
-- include grant.lua

-- held answers a caller that does not get the lock, and sees to its place.
local function held(fence, left, label)
  if not ARGV[6] then return 'held ' .. fence .. ' ' .. left .. ' ' .. label end
  local entry = ARGV[1] .. ':' .. ARGV[6] .. ':' .. ARGV[3] .. ':' .. ARGV[2]
  local place = redis.call('LPOS', KEYS[3], entry) or redis.call('RPUSH', KEYS[3], entry) - 1
  redis.call('PEXPIRE', KEYS[3], '30000')
  return 'queued ' .. fence .. ' ' .. left .. ' ' .. place .. ' ' .. label
end

local ttl, fence, least, spare = ARGV[3], ARGV[4], ARGV[5], nil
if lock then
  local holder, current, label = string.match(lock, '^([^:]+):([1-9]%d*):(.*)$')
  if not holder then return 'broken lock' end
  local left = redis.call('PTTL', KEYS[1])
  if holder ~= ARGV[1] then return held(current, left, label) end
  if left > tonumber(ttl) then ttl = left end
  if least == '0' or not below(current, least) then
    redis.call('PEXPIRE', KEYS[1], ttl)
    return 'granted ' .. current
  end
end

if least ~= '0' and below(fence, least) then fence = least end
if lock or redis.call('LLEN', KEYS[3]) == 0 then
  fence, spare = mint(fence)
  if not fence then return spare end
else
  fence, spare = mint(fence, 7)
  if not fence then return spare end
  if ARGV[6] then held(fence, 0, '') end -- behind those who came first
  local holder, label, left = grant(fence, spare, ARGV[1])
  if holder and holder ~= ARGV[1] then return held(fence, left, label) end
end
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence .. ':' .. ARGV[2], 'PX', ttl)
return 'granted ' .. fence .. spare
