-- Settle a batch: one write completes or releases every entry that the batch still holds.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   batch token, "O" | "F" | "R"
-- Reply  1 it is now as asked, 0 the batch is unknown or has ended otherwise

local number = tonumber(redis.call('HGET', KEYS[3], 'o ' .. ARGV[1]) or 0)
local batch = number > 0 and read_batch(number)
if not batch then return ARGV[2] == 'R' and 1 or 0 end
if batch.state ~= 'S' then return batch.state == ARGV[2] and 1 or 0 end
batch.state = ARGV[2]
redis.call('HSET', KEYS[3], string.format('b %.0f', number), batch.state .. record_of(batch))
if batch.state == 'R' then
  -- Opened again, the batch gets another number, so that what it held before stays absent.
  local meta, count = read_meta(), string.format('c %.0f', number)
  local slice = slice_for(meta, batch.started, batch.expires - batch.started)
  slice.removed = slice.removed + (redis.call('HGET', KEYS[3], count) or 0)
  meta.changed = true
  write_meta(meta)
  redis.call('HDEL', KEYS[3], 'o ' .. ARGV[1], count)
end
return 1
