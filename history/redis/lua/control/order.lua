-- Order: give triggers a command; it is in force until the next command of its kind.
--
-- KEYS   the control (see control/head.lua)
-- ARGV   kind, then for each trigger its name and the command as JSON
-- Reply  the command's number

--include control/head
-- Numbers follow the clock, so that they still grow after a flush.
local number = math.max(now, (tonumber(redis.call('HGET', KEYS[1], 'number')) or 0) + 1)
redis.call('HSET', KEYS[1], 'number', string.format('%d', number))
for i = 2, #ARGV, 2 do
  local given = string.format('%d %d ', number, now) .. ARGV[i + 1]
  redis.call('HSET', KEYS[1], 'o ' .. ARGV[1] .. ' ' .. ARGV[i], given)
end
return number
