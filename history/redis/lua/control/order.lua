-- Order: tell triggers something; it stands until they are told otherwise.
--
-- KEYS   the control (see control_head.lua)
-- ARGV   kind, then of each trigger its name and the order as JSON
-- Reply  the order's number

--include control/head
-- Numbers follow the clock, so that they still grow after a flush.
local number = math.max(now, (tonumber(redis.call('HGET', KEYS[1], 'number')) or 0) + 1)
redis.call('HSET', KEYS[1], 'number', string.format('%d', number))
for i = 2, #ARGV, 2 do
  local given = string.format('%d %d ', number, now) .. ARGV[i + 1]
  redis.call('HSET', KEYS[1], 'o ' .. ARGV[1] .. ' ' .. ARGV[i], given)
end
return number
