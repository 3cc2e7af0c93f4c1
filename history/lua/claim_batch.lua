-- Claim for a batch: as claim.lua, but the entries hold the batch's number, and its ledger record their state.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   lease (ms, -1 none), time to live (ms), batch token, packed; digest ...
-- Reply  now, epoch, then one per digest: the batch's fence, where it was absent and is claimed now, else the entry

--include head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include meta
--include slices
--include entries

--include open_batch
local reply, absent = {now, epoch}, {}

for i = 2, #ARGV do
  local digest = ARGV[i]
  --include look
  reply[i + 1] = shown or false
  if not shown then absent[#absent + 1] = i end
end

if #absent > 0 then
  -- Under the number of a completed batch a new claim would be COMPLETED before its service ran.
  if batch.state ~= 'S' then batch = open_batch() end
  open_slice(batch.started, batch.expires - batch.started)
  for _, i in ipairs(absent) do
    insert(ARGV[i], batch.started, 'B', batch.fence)
    reply[i + 1] = batch.fence
  end
  split()
  redis.call('HINCRBY', ledger, field('c', batch.fence), #absent)
end
save()
return reply
