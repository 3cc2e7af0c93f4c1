-- Trim: drop entries that every subscription has acknowledged.
--
-- KEYS   stream, consumer, delayed, dead letters (see shared/common.lua)
-- Reply  how many were dropped

--include shared/common

-- Ids are compared as text: their halves may be wider than a Lua number is exact.
local function before(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function older(a, b)
  local a_time, a_number = string.match(a, '^(%d+)-(%d+)$')
  local b_time, b_number = string.match(b, '^(%d+)-(%d+)$')
  if a_time ~= b_time then return before(a_time, b_time) end
  return before(a_number, b_number)
end

local function oldest_needed(subscription)
  local info = {}
  for i = 1, #subscription, 2 do info[subscription[i]] = subscription[i + 1] end
  if info.pending > 0 then return redis.call('XPENDING', stream, info.name)[2] end
  return info['last-delivered-id']
end

local oldest
for _, subscription in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local needed = oldest_needed(subscription)
  if not oldest or older(needed, oldest) then oldest = needed end
end
if not oldest then return 0 end
-- Whole nodes only (~): cheap, and never more than asked.
return redis.call('XTRIM', stream, 'MINID', '~', oldest)
