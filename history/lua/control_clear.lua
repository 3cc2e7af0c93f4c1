-- Clear: let the statistics of one trigger or of all begin again.
--
-- KEYS   the control (see control_head.lua)
-- ARGV   the trigger; none for all

--include control_head
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local trigger = string.match(field, '^s %S+ (.*)$')
  if trigger and (not ARGV[1] or trigger == ARGV[1]) then redis.call('HDEL', KEYS[1], field) end
end
