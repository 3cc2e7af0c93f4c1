-- Read: everything, for somebody who looks.
--
-- KEYS   the control (see control_head.lua)
-- Reply  now, fields and values in turn

--include control_head
return {now, redis.call('HGETALL', KEYS[1])}
