-- The beginning of the scripts of orders, states and statistics.
--
-- KEYS[1]   HASH, small, the same for all triggers:
--             "number"                 -> the number of the last order
--             "o <kind> <trigger>"     -> the standing order: number, instant, then JSON; kind is "lasts" or "passes"
--             "c <token> <trigger>"    -> the last word of a consumer: instant, then JSON
--             "s <counter> <trigger>"  -> what all consumers have counted together
--             "s consumers <trigger>"  -> how many consumers have reported it
--
-- Instants are milliseconds since 1970 on this server. Fields expire by nothing but control_sweep.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
