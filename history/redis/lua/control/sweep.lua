-- Sweep: delete the last reports of consumers that have been silent for long, one page per call.
--
-- KEYS   the control (see control/head.lua)
-- ARGV   Redis's cursor, "0" at the start; the silence in milliseconds
-- Reply  next cursor ("0" at the end), how many were deleted

--include control/head
local page, deleted = redis.call('HSCAN', KEYS[1], ARGV[1], 'MATCH', 'c *', 'COUNT', 500), 0
for i = 1, #page[2], 2 do
  local beat_at = tonumber(string.match(page[2][i + 1], '^%d+'))
  if beat_at < now - ARGV[2] then deleted = deleted + redis.call('HDEL', KEYS[1], page[2][i]) end
end
return {page[1], deleted}
