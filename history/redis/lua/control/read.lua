-- Read: everything, for somebody who looks, a page at a call.
--
-- KEYS   the control (see control_head.lua)
-- ARGV   Redis's cursor, "0" at the start
-- Reply  now, next cursor ("0" at the end), fields and values in turn; what changes meanwhile may come twice

--include control/head
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 500)
return {now, page[1], page[2]}
