-- Read: everything, for an overview, one page per call.
--
-- KEYS   the control (see control/head.lua)
-- ARGV   Redis's cursor, "0" at the start
-- Reply  now, next cursor ("0" at the end), fields and values in turn; a field that changes meanwhile may come twice

--include control/head
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 500)
return {now, page[1], page[2]}
