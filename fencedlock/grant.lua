-- include below.lua

-- mint returns a fence above every older one: the one proposed, or the next of
-- the counter. With spare it also reserves as many after it, and returns how
-- many with a space before it. In place of a fence it may return what is broken;
-- nothing is written then.
local function mint(fence, spare)
  if #fence > 18 and not below(fence, '4611686018427387904') then return nil, 'broken fence' end
  local counter = redis.call('GET', KEYS[2])
  if counter and counter ~= '0' and not string.find(counter, '^[1-9]%d*$') then return nil, 'broken counter' end
  if not counter or below(counter, fence) then
    redis.call('SET', KEYS[2], fence, 'PX', '604800000')
  elseif below(counter, '4611686018427387903') then
    redis.call('INCR', KEYS[2])
    redis.call('PEXPIRE', KEYS[2], '604800000')
    fence = redis.call('GET', KEYS[2])
  else
    return nil, 'broken counter'
  end
  if not spare or not below(fence, '4611686018427387000') then return fence, '' end
  redis.call('INCRBY', KEYS[2], spare)
  return fence, ' ' .. spare
end

-- grant gives the lock to the first in the queue whose process still listens,
-- for a first lease, and tells it. An entry is holder:waker:ttl:label. The waker
-- names a channel, nothing for a waiter that only polls; ! before it says that
-- nobody listening means nobody waiting, # the same of a channel that is kept by the
-- name of the resource. It returns what the lock then is, or
-- nothing when nobody was left. The holder me is not told: it has asked.
local function grant(fence, spare, me)
  local channel = string.match(KEYS[1], '^[^{]*') .. 'wake:'
  local shard = string.sub(KEYS[1], 1, -5) .. 'wake:'
  while true do
    local entry = redis.call('LPOP', KEYS[3])
    if not entry then return nil end
    local holder, sure, waker, ttl, label = string.match(entry, '^([^:]+):([!#]?)([^:]*):(%d+):(.*)$')
    if holder == me and holder then return holder end
    local heard = 1
    if not holder then
      heard = 0
    elseif waker ~= '' then
      local text = holder .. ' ' .. fence .. spare
      if sure == '#' then
        heard = redis.pcall('SPUBLISH', shard .. waker, text)
      else
        heard = redis.pcall('PUBLISH', channel .. waker, text)
      end
      if sure == '' or type(heard) ~= 'number' then heard = 1 end
    end
    if heard > 0 then
      if tonumber(ttl) > 500 then ttl = '500' end
      redis.call('SET', KEYS[1], holder .. ':' .. fence .. ':' .. label, 'PX', ttl)
      return holder, label, ttl
    end
  end
end
