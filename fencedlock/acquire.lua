-- KEYS[1] the lock, holder:fence:label, expires with the lease
-- KEYS[2] the counter, the newest fence issued, expires when long idle
-- ARGV[1] holder  ARGV[2] label  ARGV[3] lease in ms
-- ARGV[4] proposal: the fence to issue when the counter is not already there
-- ARGV[5] least: the smallest fence that the stores still accept, 0 for any
-- ARGV[6] idle life of the counter in ms
--
-- granted <fence> | held <fence> <ms left> <label> | broken lock|counter|fence
--
-- Lua numbers are doubles: fences stay decimal strings, INCR does the sums.
-- All checks come before the first write, the counter before the lock.
local function below(a, b)
  if #a ~= #b then return #a < #b end
  local x, y = tonumber(string.sub(a, 1, 10)), tonumber(string.sub(b, 1, 10))
  if x ~= y then return x < y end
  return #a > 10 and tonumber(string.sub(a, 11)) < tonumber(string.sub(b, 11))
end

local ttl = tonumber(ARGV[3])
local lock = redis.call('GET', KEYS[1])
if lock then
  local holder, fence, label = string.match(lock, '^([^:]+):([1-9]%d*):(.*)$')
  if not holder then return 'broken lock' end
  local left = redis.call('PTTL', KEYS[1])
  if holder ~= ARGV[1] then
    return 'held ' .. fence .. ' ' .. left .. ' ' .. label
  end
  if left > ttl then ttl = left end
  if not below(fence, ARGV[5]) then
    redis.call('PEXPIRE', KEYS[1], ttl)
    return 'granted ' .. fence
  end
end

local fence = ARGV[4]
if below(fence, ARGV[5]) then fence = ARGV[5] end
if not below(fence, '4611686018427387904') then return 'broken fence' end
local counter = redis.call('GET', KEYS[2])
if counter then
  if counter ~= '0' and not string.find(counter, '^[1-9]%d*$') then return 'broken counter' end
  if not below(counter, '4611686018427387903') then return 'broken counter' end
end
if counter and not below(counter, fence) then
  redis.call('INCR', KEYS[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
  fence = redis.call('GET', KEYS[2])
else
  redis.call('SET', KEYS[2], fence, 'PX', ARGV[6])
end
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence .. ':' .. ARGV[2], 'PX', ttl)
return 'granted ' .. fence
