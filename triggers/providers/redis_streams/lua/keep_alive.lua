-- Keep alive: the idle time of what this consumer holds starts again, and it keeps its name.
--
-- KEYS   stream, consumer, delayed, dead letters (see shared/common.lua)
-- ARGV   group, name, token, claim_idle, id held ...
-- Reply  {{id that this consumer no longer has ...}, {id that is no longer in the stream ...}}; nil when another
--        consumer has the name

--include shared/common
if not keep_name() then return false end
local mine, lost = {}, {}
for i = 5, #ARGV do
  local list = owns(name, ARGV[i]) and mine or lost
  list[#list + 1] = ARGV[i]
end
set_owner(name, 0, mine)
return {lost, gone}
