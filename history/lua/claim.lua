-- Claim for an attempt: for each digest, write STARTED where it is absent, and answer what stood there.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   epoch to set on an empty data set, owner token, lease (ms, -1 none), time to live (ms), digest ...
-- Reply  now, epoch, then one per digest: the fence, if claimed (or claimed before by this token), else the entry

local owner, lease, time_to_live = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local meta = read_meta()
if not meta.epoch then
  meta.epoch = ARGV[1]
  redis.call('HSET', KEYS[1], 'epoch', meta.epoch)
end
local reply, seen, writes, fence = {now, meta.epoch}, {}, {}, meta.fence

local digests = {unpack(ARGV, 5)}
local records = redis.call('HMGET', KEYS[2], unpack(digests))
local tail = struct.pack('>I8I8I8', now, lease_until(lease), now + time_to_live) .. owner

for i, digest in ipairs(digests) do
  local entry = seen[digest] or find(meta, digest, records[i])
  if not entry then
    fence = fence + 1
    local record = struct.pack('>I8', fence) .. tail
    writes[#writes + 1], writes[#writes + 2] = digest, record
    seen[digest] = parse(record, 'S')
    reply[#reply + 1] = fence
  elseif not seen[digest] and entry.owner == owner and entry.state == 'S' and not entry.batch then
    seen[digest] = entry
    reply[#reply + 1] = entry.fence
  else
    seen[digest] = entry
    reply[#reply + 1] = show(entry)
  end
end

if #writes > 0 then
  redis.call('HSET', KEYS[2], unpack(writes))
  redis.call('HSET', KEYS[1], 'fence', string.format('%.0f', fence))
end
return reply
