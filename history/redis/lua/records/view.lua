-- View: all records of some listed kinds, as they are at one instant.
--
-- KEYS   the trigger's history
-- ARGV   the kinds
-- Reply  now, in milliseconds since 1970; then for each kind its keys and records, in turn (see shared/records.lua)

local clock = redis.call('TIME')
local reply = {clock[1] * 1000 + math.floor(clock[2] / 1000)}
for index, kind in ipairs(ARGV) do reply[index + 1] = redis.call('HGETALL', string.sub(KEYS[1], 1, -8) .. kind) end
return reply
