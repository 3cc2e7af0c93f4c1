-- Sweep: delete the last words of consumers that have been silent for long.
--
-- KEYS   the control (see control_head.lua)
-- ARGV   for how long, in milliseconds
-- Reply  how many were deleted

--include control_head
local deleted, fields = 0, redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local beat_at = string.match(fields[i], '^c ') and tonumber(string.match(fields[i + 1], '^%d+'))
  if beat_at and beat_at < now - ARGV[1] then deleted = deleted + redis.call('HDEL', KEYS[1], fields[i]) end
end
return deleted
