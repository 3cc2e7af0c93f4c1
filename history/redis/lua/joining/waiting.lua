-- Waiting: show the periods that are not finished.
--
-- KEYS   the trigger's history (see head.lua, join_head.lua)
-- ARGV   after how many, at most how many
-- Reply  a period ..., those first that somebody has to look at first

--include shared/head
--include joining/head
local reply = redis.call('ZRANGE', due, ARGV[1], ARGV[1] + ARGV[2] - 1)
for i, number in ipairs(reply) do reply[i] = shown_period(number) end
return reply
