-- Sets `batch` to the ledger's record of the batch in ARGV[1], opened if needed. `number` is its number, and
-- `known_epoch` the epoch, negative if the data are older than the fence that the client knows of.
local lease, time_to_live, known, after = struct.unpack('>i8i8I8', ARGV[1])
local token = string.sub(ARGV[1], after)
local known_epoch = epoch
if known > last_fence then
  --include shared/origin
  step_over(known)
  save()
  known_epoch = -epoch
end

-- The number is used up first: two batches with one number would complete each other's entries.
local function open_batch()
  last_fence = last_fence + 1
  save()
  local batch = {state = 'S', fence = last_fence, started = now, lease = lease_until(lease),
                 expires = now + time_to_live, owner = token}
  redis.call('HSET', ledger, '', '', 'b ' .. string.format('%.0f', batch.fence), 'S' .. record_of(batch),
             'o ' .. token, string.format('%.0f', batch.fence))
  redis.call('HSET', KEYS[1] .. ':origin', 'epoch', string.format('%.0f', epoch), 'batches', '')
  return batch
end

local number = tonumber(redis.call('HGET', ledger, 'o ' .. token))
local batch = number and read_batch(number) or open_batch()
