-- Trim: drop entries of some age that every subscription has acknowledged.
--
-- KEYS   stream, consumer, delayed, dead letters (see shared/common.lua)
-- ARGV   group, name, token, claim_idle, how old (ms)
-- Reply  how many were dropped, and a subscription without a running consumer that has kept entries from being
--        dropped for a day, or ""

--include shared/common
--include shared/subscriptions

-- Ids are compared as text: their halves may have more digits than a Lua number holds exactly.
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

local function oldest_needed(info)
  if info.pending > 0 then
    local id = redis.call('XPENDING', stream, info.name)[2]
    return id, id
  end
  return info['last-delivered-id'], '(' .. info['last-delivered-id']
end

local DAY, now = 86400000, server_time()
local function ago(milliseconds) return string.format('%.0f-0', math.max(0, now - milliseconds)) end

local oldest, begin, last
for _, subscription in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local info = named(subscription)
  local needed, from = oldest_needed(info)
  if not oldest or older(needed, oldest) then oldest, begin, last = needed, from, info.name end
end
if not oldest then return {0, ''} end
local until_then = ago(tonumber(ARGV[5]))
if older(oldest, until_then) then
  local first = redis.call('XRANGE', stream, begin, '+', 'COUNT', 1)[1]
  local held_up = first and older(first[1], ago(tonumber(ARGV[5]) + DAY)) and living_consumers(last) == 0
  if not held_up then last = '' end
  until_then = oldest
else
  last = ''
end
-- Only whole nodes (~): cheap, and never more than requested.
return {redis.call('XTRIM', stream, 'MINID', '~', until_then), last}
