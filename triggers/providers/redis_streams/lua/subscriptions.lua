-- Subscriptions: what each of a stream has not acknowledged and not read, and who consumes it.
--
-- KEYS   stream, consumer, delayed, dead letters, later (see shared/common.lua; those of a consumer are not touched)
-- ARGV   group, name, token, claim_idle (not used)
-- Reply  {{name, pending, unread, living consumers, id of the oldest that it keeps or "", id of the last that it was
--        given} ...}; nil when there is no stream. Unread is -1 where the server does not know: before Redis 7.0,
--        and where entries were deleted out of the middle. Of each, no more than one entry is read: Redis does
--        nothing else meanwhile, and bodies may be large.

--include shared/common
--include shared/subscriptions

if redis.call('EXISTS', stream) == 0 then return false end
local first, length = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1], redis.call('XLEN', stream)

-- The lag counts what was deleted unread, on some servers: never more than there is.
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
