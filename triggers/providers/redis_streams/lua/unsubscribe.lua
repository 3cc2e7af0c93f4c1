-- Unsubscribe: end a subscription that nobody consumes, so that the stream keeps nothing for it.
--
-- KEYS   stream, consumer, delayed, dead letters, later (see shared/common.lua)
-- ARGV   group, name, token, claim_idle (the last three not used), "all" to give up unacknowledged and unread
--        entries; else ""
-- Reply  "done", "absent", "consumed" or "needed"

--include shared/common
--include shared/subscriptions

if redis.call('EXISTS', stream) == 0 then return 'absent' end
for _, found in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local info = named(found)
  if info.name == group then
    if living_consumers(group) > 0 then return 'consumed' end
    local unread = redis.call('XRANGE', stream, '(' .. info['last-delivered-id'], '+', 'COUNT', 1)[1]
    if ARGV[5] ~= 'all' and (info.pending > 0 or unread) then return 'needed' end
    redis.call('XGROUP', 'DESTROY', stream, group)
    redis.call('DEL', KEYS[3])
    return 'done'
  end
end
return 'absent'
