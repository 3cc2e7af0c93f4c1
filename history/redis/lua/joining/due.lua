-- Due: hand out the ready and expired periods that nobody holds; fail the entries of the periods that expire.
--
-- KEYS   the trigger's history (see shared/head.lua, joining/head.lua)
-- ARGV   owner, hold (ms), the most periods
-- Reply  a period ...

--include shared/head
--include joining/head
local reply = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, ARGV[3])
if #reply == 0 then return reply end

local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

-- Turns a completed entry into a failed entry, so that the part's parked copy can be run.
local function fail(part)
  local digest, fence = string.sub(part, 1, 16), struct.unpack('>I8', part, 17)
  local entry, bucket, slice = find(digest)
  if not entry or entry.state ~= 'O' or entry.batch or entry.fence % FENCES ~= fence % FENCES then return end
  open_named(slice)
  stale = stale + 1  -- insert() counts the entry that it replaces as stale
  insert(digest, entry.started, 'F', fence)
end

for i, number in ipairs(reply) do
  local key = joins .. ':' .. number
  if redis.call('HGET', key, 'state') ~= 'ready' then
    local fields = redis.call('HGETALL', key)
    for j = 1, #fields, 2 do
      if string.sub(fields[j], 1, 2) == 'p ' then fail(fields[j + 1]) end
    end
    local activation = redis.call('HGET', key, 'activation')
    if redis.call('HGET', joins, activation) == number then redis.call('HDEL', joins, activation) end
    redis.call('HSET', key, 'state', 'expired')
  end
  reply[i] = hand_out(number, ARGV[1], tonumber(ARGV[2]))
end
if name then save() end
return reply
