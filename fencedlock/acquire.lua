-- KEYS[1] the lock, holder:fence:label, expires with the lease
-- KEYS[2] the counter, the newest fence issued, expires seven days after it was
--   last used. Losing it is harmless: the next fence is proposed from the clock,
--   which is above every fence of seven days ago.
-- ARGV[1] holder  ARGV[2] label  ARGV[3] lease in ms
-- ARGV[4] proposal: the fence to issue when the counter is not already there
-- ARGV[5] least: the smallest fence that the stores still accept; may be absent
--
-- granted <fence> | held <fence> <ms left> <label> | broken lock|counter|fence
--
-- Lua numbers are doubles: fences stay decimal strings, INCR does the sums.
-- All checks come before the first write, the counter before the lock. What a
-- free lock does not need is not computed: that is a fifth of the time of this.
local function below(a, b)
  local x, y = tonumber(a), tonumber(b)
  if x ~= y then return x < y end -- rounding makes numbers equal, never swaps them
  if #a ~= #b then return #a < #b end
  x, y = tonumber(string.sub(a, 1, 10)), tonumber(string.sub(b, 1, 10))
  if x ~= y then return x < y end
  return #a > 10 and tonumber(string.sub(a, 11)) < tonumber(string.sub(b, 11))
end

local ttl, fence, least = ARGV[3], ARGV[4], ARGV[5]
local lock = redis.call('GET', KEYS[1])
if lock then
  local holder, current, label = string.match(lock, '^([^:]+):([1-9]%d*):(.*)$')
  if not holder then return 'broken lock' end
  local left = redis.call('PTTL', KEYS[1])
  if holder ~= ARGV[1] then
    return 'held ' .. current .. ' ' .. left .. ' ' .. label
  end
  if left > tonumber(ttl) then ttl = left end
  if not least or not below(current, least) then
    redis.call('PEXPIRE', KEYS[1], ttl)
    return 'granted ' .. current
  end
end

if least and below(fence, least) then fence = least end
if #fence > 18 and not below(fence, '4611686018427387904') then return 'broken fence' end
local counter = redis.call('GET', KEYS[2])
if counter and counter ~= '0' and not string.find(counter, '^[1-9]%d*$') then return 'broken counter' end
if not counter or below(counter, fence) then
  redis.call('SET', KEYS[2], fence, 'PX', '604800000')
elseif below(counter, '4611686018427387903') then
  redis.call('INCR', KEYS[2])
  redis.call('PEXPIRE', KEYS[2], '604800000')
  fence = redis.call('GET', KEYS[2])
else
  return 'broken counter'
end
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence .. ':' .. ARGV[2], 'PX', ttl)
return 'granted ' .. fence
