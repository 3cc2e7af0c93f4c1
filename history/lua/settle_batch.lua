-- Settle a batch: one write completes or releases every entry that the batch still holds.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   batch token, "O" | "F" | "R"
-- Reply  1 it is now as asked, 0 the batch is unknown or has ended otherwise

--include head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include meta
--include slices
--include entries

local token, asked = 'o ' .. ARGV[1], ARGV[2]
local number = tonumber(redis.call('HGET', ledger, token))
local batch = number and read_batch(number)
if not batch then return asked == 'R' and 1 or 0 end
if batch.state ~= 'S' then return batch.state == asked and 1 or 0 end
redis.call('HSET', ledger, field('b', number), asked .. record_of(batch))
if asked == 'R' then
  -- Opened again, the batch gets another number, so that what it held before stays absent.
  open_slice(batch.started, batch.expires - batch.started)
  stale = stale + (redis.call('HGET', ledger, field('c', number)) or 0)
  save()
  redis.call('HDEL', ledger, token, field('c', number))
end
return 1
