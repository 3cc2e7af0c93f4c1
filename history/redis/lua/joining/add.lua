-- Add: store a part in the open period of its activation and complete its entry, or do neither.
--
-- KEYS   the trigger's history (see shared/head.lua, joining/head.lua)
-- ARGV   digest, fence, activation, destination, message, time-out (ms, -1 none), owner, hold (ms);
--        the destinations that a period waits for ...
-- Reply  "kept", "taken" (another message has the place) or "stale" (the fence is stale);
--        then, if this was the last part, the period, which the owner now holds

--include shared/head
--include joining/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

local digest, fence, activation, place = ARGV[1], tonumber(ARGV[2]), ARGV[3], 'p ' .. ARGV[4]

local entry = find(digest)
if entry and entry.state == 'O' and entry.fence % FENCES == fence % FENCES then return {'kept'} end  -- sent twice
if not entry or entry.state ~= 'S' or entry.batch or entry.fence ~= fence then return {'stale'} end

local number = redis.call('HGET', joins, activation)
if number and tonumber(redis.call('ZSCORE', due, number) or 0) <= now then number = false end  -- due.lua handles it
local held = number and redis.call('HGET', joins .. ':' .. number, place)
if held and string.sub(held, 1, 16) ~= digest then return {'taken'} end

if not number then
  last_fence = last_fence + 1
  save()  -- first, so that a period and a claim never share a number, even if this script fails
  number = string.format('%.0f', last_fence)
  local time_out = tonumber(ARGV[6])
  redis.call('HSET', joins, activation, number)
  redis.call('ZADD', due, time_out < 0 and '+inf' or now + time_out, number)
  redis.call('HSET', joins .. ':' .. number, 'activation', activation, 'started', now, 'state', 'open', 'taken', 0)
end
local key = joins .. ':' .. number
redis.call('HSET', key, place, digest .. struct.pack('>I8', fence) .. ARGV[5])

open_slice(entry.started, entry.expires - entry.started)
insert(digest, entry.started, 'O', fence)
split()
save()
redis.call('HDEL', KEYS[1], digest)

for i = 9, #ARGV do
  if redis.call('HEXISTS', key, 'p ' .. ARGV[i]) == 0 then return {'kept'} end
end
redis.call('HSET', key, 'state', 'ready')
redis.call('HDEL', joins, activation)
return {'kept', hand_out(number, ARGV[7], tonumber(ARGV[8]))}
