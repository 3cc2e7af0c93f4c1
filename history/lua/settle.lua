-- Settle: complete or release the claims whose fence still stands.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   digest, fence, "O" completed ok | "F" completed failed | "R" released, and so on
-- Reply  one per triple: 1 it is now as asked (also when it was before), 0 the fence is stale

local meta, digests, reply, gone = read_meta(), {}, {}, {}
for i = 1, #ARGV, 3 do digests[#digests + 1] = ARGV[i] end
local records = redis.call('HMGET', KEYS[2], unpack(digests))

local function settle(digest, record, fence, asked)
  local entry = find(meta, digest, record)
  if not entry then return asked == 'R' and 1 or 0 end
  if entry.fence ~= fence or entry.batch then return 0 end
  if entry.state ~= 'S' then return entry.state == asked and 1 or 0 end
  gone[#gone + 1] = digest
  if asked ~= 'R' then
    insert(meta, entry.started, entry.expires - entry.started, digest, asked == 'O' and OK or FAILED, fence)
  end
  return 1
end

local settled = {}
for i, digest in ipairs(digests) do
  local asked = ARGV[3 * i]
  if settled[digest] then
    reply[i] = settled[digest] == asked and 1 or 0
  else
    reply[i] = settle(digest, records[i], tonumber(ARGV[3 * i - 1]), asked)
    if reply[i] == 1 then settled[digest] = asked end
  end
end
if #gone > 0 then redis.call('HDEL', KEYS[2], unpack(gone)) end
write_meta(meta)
return reply
