-- Waiting: show the periods that are not finished.
--
-- KEYS   the trigger's history (see shared/head.lua, joining/head.lua)
-- ARGV   after how many, the most periods
-- Reply  a period ..., in the order in which they are due

--include shared/head
--include joining/head
local reply = redis.call('ZRANGE', due, ARGV[1], ARGV[1] + ARGV[2] - 1)
for i, number in ipairs(reply) do reply[i] = shown_period(number) end
return reply
