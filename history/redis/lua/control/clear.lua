-- Clear: set the statistics of one trigger or all back to zero, one page per call.
--
-- KEYS   the control (see control/head.lua)
-- ARGV   Redis's cursor, "0" at the start; the trigger, none for all
-- Reply  next cursor ("0" at the end)

--include control/head
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'MATCH', 's *', 'COUNT', 500)
for i = 1, #page[2], 2 do
  local name, trigger = string.match(page[2][i], '^s (%S+) (.*)$')
  if name ~= 'consumers' and trigger and (not ARGV[2] or trigger == ARGV[2]) then redis.call('HDEL', KEYS[1], page[2][i]) end
end
return {page[1]}
