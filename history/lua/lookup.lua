-- Look up: read entries without claiming.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   digest ...
-- Reply  now, then one per digest: the entry, or "" when absent

local meta, reply = read_meta(), {now}
local records = redis.call('HMGET', KEYS[2], unpack(ARGV))
for i, digest in ipairs(ARGV) do
  local entry = find(meta, digest, records[i])
  reply[#reply + 1] = entry and show(entry) or ''
end
return reply
