-- Subscriptions: what each one of a stream has not acknowledged and not read, and its consumers.
--
-- KEYS   stream, consumer, delayed, dead letters, later (see shared/common.lua; those of a consumer are not touched)
-- ARGV   group, name, token, claim_idle (not used)
-- Reply  {{name, pending, unread, running consumers, id of the oldest entry that it keeps or "", id of the last entry
--        that it received} ...}; nil without a stream. Unread is -1 if the server does not know: before Redis 7.0,
--        and if entries were deleted out of the middle. At most one entry of each is read, because Redis does
--        nothing else meanwhile, and bodies may be large.

--include shared/common
--include shared/subscriptions

if redis.call('EXISTS', stream) == 0 then return false end
local first, length = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1], redis.call('XLEN', stream)

-- On some servers the lag counts entries that were deleted unread: limit it to the existing ones.
local function unread(info, next)
  if not next then return 0 end
  if next[1] == first[1] then return length end
  return info.lag and math.min(info.lag, length) or -1
end

local reply = {}
for i, found in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local info = named(found)
  local next = redis.call('XRANGE', stream, '(' .. info['last-delivered-id'], '+', 'COUNT', 1)[1]
  local oldest = next and next[1] or ''
  if info.pending > 0 then oldest = redis.call('XPENDING', stream, info.name)[2] end
  reply[i] = {
    info.name, info.pending, unread(info, next), living_consumers(info.name), oldest, info['last-delivered-id']
  }
end
return reply
