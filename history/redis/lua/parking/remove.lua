-- Parking: remove one message.
--
-- KEYS   the trigger's history (see head.lua, label.lua)
-- ARGV   id, digest of its uuid and id
-- Reply  1 it was there, 0 it was not

local parked = string.sub(KEYS[1], 1, -8) .. 'parked'  -- instead of "history"
redis.call('ZREM', parked .. ':order', ARGV[1])
redis.call('HDEL', parked .. ':labels', ARGV[1])
redis.call('HDEL', parked .. ':copies', ARGV[1])
redis.call('ZREM', parked .. ':uuids', ARGV[2])
return redis.call('HDEL', parked, ARGV[1])
