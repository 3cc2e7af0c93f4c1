-- Beat: store a consumer's reports, add its new counts to the statistics, return its commands.
--
-- KEYS   the control (see control/head.lua)
-- ARGV   token, then for each trigger its name and the consumer's report as JSON
-- Reply  now, then for each trigger its two commands, or false for a missing command

--include control/head
local reply = {now}
for i = 2, #ARGV, 2 do
  local trigger, word = ARGV[i], ARGV[i + 1]
  local field = 'c ' .. ARGV[1] .. ' ' .. trigger
  local held = redis.call('HGET', KEYS[1], field)
  local before = held and cjson.decode(string.match(held, '^%d+ (.*)$')).counts or {}
  -- Counts are absolute: a report that arrives twice adds nothing, and the next report corrects an overtaken one.
  for name, count in pairs(cjson.decode(word).counts) do
    local more = count - (before[name] or 0)
    if more ~= 0 then
      redis.call('HINCRBY', KEYS[1], 's ' .. name .. ' ' .. trigger, string.format('%d', more))
    end
  end
  -- This still shows that it had a consumer after the statistics are cleared.
  if not held then redis.call('HINCRBY', KEYS[1], 's consumers ' .. trigger, 1) end
  redis.call('HSET', KEYS[1], field, string.format('%d', now) .. ' ' .. word)
  reply[#reply + 1] = redis.call('HGET', KEYS[1], 'o lasts ' .. trigger)
  reply[#reply + 1] = redis.call('HGET', KEYS[1], 'o passes ' .. trigger)
end
return reply
