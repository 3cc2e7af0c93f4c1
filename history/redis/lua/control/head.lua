-- The beginning of the scripts of commands, states and statistics.
--
-- KEYS[1]   HASH, small, the same for all triggers:
--             "number"                 -> the number of the last command
--             "o <kind> <trigger>"     -> the command in force: number, instant, then JSON; kind is "lasts" or "passes"
--             "c <token> <trigger>"    -> the last report of a consumer: instant, then JSON
--             "s <counter> <trigger>"  -> what all consumers have counted together
--             "s consumers <trigger>"  -> how many consumers have reported it
--
-- Instants are milliseconds since 1970 on this server. Only sweep.lua deletes old fields.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
