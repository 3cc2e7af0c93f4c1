-- Sets `batch` to the ledger's record of the batch that ARGV[1] tells of, opened if need be; `number` is its number.
local lease, time_to_live, after = struct.unpack('>i8i8', ARGV[1])
local token = string.sub(ARGV[1], after)

local function open_batch()
  last_fence = last_fence + 1
  local batch = {state = 'S', fence = last_fence, started = now, lease = lease_until(lease),
                 expires = now + time_to_live, owner = token}
  redis.call('HSET', ledger, 'o ' .. token, string.format('%.0f', batch.fence),
             field('b', batch.fence), 'S' .. record_of(batch))
  return batch
end

local number = tonumber(redis.call('HGET', ledger, 'o ' .. token))
local batch = number and read_batch(number) or open_batch()
