-- Adopt: move STARTED entries that still have the expected fence into a batch.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   as claim.lua, for a batch token; expected fence, packed ...; as many digests
-- Reply  one per digest: the batch's fence, also for one that it holds already, or -1 if the fence is stale

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries
--include entries/open_batch

local asked_for, reply, adopted = (#ARGV - 1) / 2, {}, 0
local gone, left = {}, {}  -- what they leave behind: runs in flight; buckets and digests
if batch.state ~= 'S' then batch = open_batch() end
open_slice(batch.started, batch.expires - batch.started)
local slice = name

local function adopt(digest, expected)
  local entry, key = find(digest)
  if not entry or entry.state ~= 'S' then return -1 end
  if entry.batch and entry.fence == batch.fence then return batch.fence end
  if entry.fence ~= expected then return -1 end
  open_named(slice)
  local stale_before = stale
  local target = insert(digest, batch.started, 'B', batch.fence)
  if entry.batch then leave_batch(entry.fence) end
  if key == target then
    stale = stale_before  -- insert() counted what it replaced as stale
  elseif key then
    left[#left + 1], left[#left + 2] = key, digest
  else
    gone[#gone + 1] = digest
  end
  adopted = adopted + 1
  return batch.fence
end

for i = 1, asked_for do
  reply[i] = adopt(ARGV[1 + asked_for + i], (struct.unpack('>I8', ARGV[1 + i])))
end
if adopted > 0 then
  redis.call('HINCRBY', ledger, field('c', batch.fence), adopted)
  split()
end
save()
if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
for i = 1, #left, 2 do delete_from(left[i], {string.sub(left[i + 1], 1, SHORT)}) end
return reply
