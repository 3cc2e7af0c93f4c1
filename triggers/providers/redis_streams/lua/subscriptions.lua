-- Subscriptions: what each of a stream has not acknowledged and not read, and who consumes it.
--
-- KEYS   stream, consumer, delayed, dead letters, later (see shared/common.lua; those of a consumer are not touched)
-- ARGV   group, name, token, claim_idle (not used), how many unread entries to count at most
-- Reply  {{name, pending, unread, living consumers, id of the oldest that it keeps or ""} ...}; nil when there is no
--        stream

--include shared/common
--include shared/subscriptions

if redis.call('EXISTS', stream) == 0 then return false end
local reply = {}
for i, found in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local info = named(found)
  local unread = redis.call('XRANGE', stream, '(' .. info['last-delivered-id'], '+', 'COUNT', ARGV[5])
  local oldest = unread[1] and unread[1][1] or ''
  if info.pending > 0 then oldest = redis.call('XPENDING', stream, info.name)[2] end
  reply[i] = {info.name, info.pending, #unread, living_consumers(info.name), oldest}
end
return reply
