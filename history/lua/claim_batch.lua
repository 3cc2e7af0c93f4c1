-- Claim for a batch: as claim.lua, but the entries hold the batch's number, and its ledger record their state.
--
-- KEYS   the trigger's history (see common.lua)
-- ARGV   lease (ms, -1 none), time to live (ms), batch token, packed; digest ...
-- Reply  now, epoch, then one per digest: the batch's fence, where it was absent and is claimed now, else the entry

local lease, time_to_live, at = struct.unpack('>i8i8', ARGV[1])
local token, ledger = string.sub(ARGV[1], at), KEYS[1] .. ':batches'

local function open_batch()
  last_fence = last_fence + 1
  local batch = {state = 'S', fence = last_fence, started = now, lease = lease_until(lease),
                 expires = now + time_to_live, owner = token}
  redis.call('HSET', ledger, 'o ' .. token, string.format('%.0f', batch.fence),
             field('b', batch.fence), 'S' .. record_of(batch))
  return batch
end

local number = tonumber(redis.call('HGET', ledger, 'o ' .. token))
local batch = number and parse(show_batch(number)) or open_batch()
local reply, held = {now, epoch}, 0

-- All are looked up before the first is written: a write may split a bucket, and look() would not know.
for i = 2, #ARGV do reply[i + 1] = look(ARGV[i]) or false end

for i = 2, #ARGV do
  local shown = reply[i + 1]
  if not shown then
    -- Under the number of a completed batch the new claim would be COMPLETED before its service ran.
    if batch.state ~= 'S' then batch = open_batch() end
    insert(batch.started, batch.expires - batch.started, ARGV[i], BATCH, batch.fence)
    held = held + 1
    shown = batch.fence
  end
  reply[i + 1] = shown
end

if held > 0 then redis.call('HINCRBY', ledger, field('c', batch.fence), held) end
save()
return reply
