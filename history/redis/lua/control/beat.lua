-- Beat: keep what a consumer says of its triggers, add what it counted since its last word, answer its orders.
--
-- KEYS   the control (see control_head.lua)
-- ARGV   token, then of each trigger its name and the consumer's word as JSON
-- Reply  now, then of each trigger its two orders, or false where there is none

--include control/head
local reply = {now}
for i = 2, #ARGV, 2 do
  local trigger, word = ARGV[i], ARGV[i + 1]
  local field = 'c ' .. ARGV[1] .. ' ' .. trigger
  local held = redis.call('HGET', KEYS[1], field)
  local before = held and cjson.decode(string.match(held, '^%d+ (.*)$')).counts or {}
  -- Counts are absolute: a word that arrives twice adds nothing, one that was overtaken is put right by the next.
  for name, count in pairs(cjson.decode(word).counts) do
    local more = count - (before[name] or 0)
    if more ~= 0 then
      redis.call('HINCRBY', KEYS[1], 's ' .. name .. ' ' .. trigger, string.format('%d', more))
    end
  end
  -- That it had a consumer is known after the statistics are cleared, too.
  if not held then redis.call('HINCRBY', KEYS[1], 's consumers ' .. trigger, 1) end
  redis.call('HSET', KEYS[1], field, string.format('%d', now) .. ' ' .. word)
  reply[#reply + 1] = redis.call('HGET', KEYS[1], 'o lasts ' .. trigger)
  reply[#reply + 1] = redis.call('HGET', KEYS[1], 'o passes ' .. trigger)
end
return reply
