-- Results: keep what a run answered, unless a run with a greater fence has kept something.
--
-- KEYS   doubtless:{<trigger>}:result:<digest>: "<fence> <bytes>"
-- ARGV   fence, bytes, time to live in milliseconds
-- Reply  1 it is kept, 0 it is not

-- Digits are compared, for a number of Lua is exact only up to 2^53.
local held = string.match(redis.call('GETRANGE', KEYS[1], 0, 31), '^%d+') or ''
if #held > #ARGV[1] or (#held == #ARGV[1] and held > ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
return 1
