-- Finish: forget a period that is ready or expired, and its parts.
--
-- KEYS   the trigger's history (see shared/head.lua, joining/head.lua)
-- ARGV   number
-- Reply  1 it was there, 0 it was not

--include shared/head
--include joining/head
local key = joins .. ':' .. ARGV[1]
local state = redis.call('HGET', key, 'state')
if not state or state == 'open' then return 0 end
redis.call('ZREM', due, ARGV[1])
return redis.call('DEL', key)
