-- Claim for a batch: as claim.lua, but the entries hold the batch's number, and its ledger record their state.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   epoch to set on an empty data set, batch token, lease (ms, -1 none), time to live (ms), digest ...
-- Reply  now, epoch, then one per digest: the batch's fence, if this batch holds it, else the entry

local owner, lease, time_to_live = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local meta = read_meta()
if not meta.epoch then
  meta.epoch = ARGV[1]
  redis.call('HSET', KEYS[1], 'epoch', meta.epoch)
end

local function open_batch()
  local number = tonumber(redis.call('HGET', KEYS[3], 'o ' .. owner) or 0)
  local known = number > 0 and read_batch(number)
  if known then return known end
  number = redis.call('HINCRBY', KEYS[1], 'fence', 1)
  meta.fence = number
  local batch = {state = 'S', fence = number, started = now, lease = lease_until(lease),
                 expires = now + time_to_live, owner = owner, batch = true}
  redis.call('HSET', KEYS[3], 'o ' .. owner, string.format('%.0f', number),
             string.format('b %.0f', number), 'S' .. record_of(batch))
  batches[number] = batch
  return batch
end

local reply, seen, held, batch = {now, meta.epoch}, {}, 0, open_batch()
local digests = {unpack(ARGV, 5)}
local records = redis.call('HMGET', KEYS[2], unpack(digests))

for i, digest in ipairs(digests) do
  local entry = seen[digest] or find(meta, digest, records[i])
  if not entry then
    insert(meta, batch.started, batch.expires - batch.started, digest, BATCH, batch.fence)
    held = held + 1
    seen[digest] = batch
    reply[#reply + 1] = batch.fence
  elseif not seen[digest] and entry.batch and entry.fence == batch.fence and entry.state == 'S' then
    seen[digest] = entry
    reply[#reply + 1] = batch.fence
  else
    seen[digest] = entry
    reply[#reply + 1] = show(entry)
  end
end

if held > 0 then redis.call('HINCRBY', KEYS[3], string.format('c %.0f', batch.fence), held) end
write_meta(meta)
return reply
