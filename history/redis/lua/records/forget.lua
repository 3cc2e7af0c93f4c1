-- Forget: delete some records of a listed kind that have not changed for long.
--
-- KEYS   the trigger's history
-- ARGV   kind, milliseconds, the most records
-- Reply  how many were deleted

--include shared/records
local place, clock = string.sub(KEYS[1], 1, -8) .. ARGV[1], redis.call('TIME')
local oldest = clock[1] * 1000 + math.floor(clock[2] / 1000) - ARGV[2]
local old = redis.call('ZRANGEBYSCORE', place .. ':times', '-inf', '(' .. oldest, 'LIMIT', 0, ARGV[3])
for _, key in ipairs(old) do unlist(place, key) end
return #old
