-- First: become the first message of an activation, unless there is one.
--
-- KEYS   the trigger's history (see shared/head.lua, joining/head.lua)
-- ARGV   activation, digest, time-out (ms, -1 none)
-- Reply  1 this message is the first, 0 another message is

--include shared/head
--include joining/head
local key = joins .. ':first:' .. ARGV[1]
local held = redis.call('GET', key)
if held then return held == ARGV[2] and 1 or 0 end
redis.call('SET', key, ARGV[2])
if tonumber(ARGV[3]) >= 0 then redis.call('PEXPIRE', key, ARGV[3]) end
return 1
