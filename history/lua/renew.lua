-- Renew: prolong the lease of a STARTED entry whose fence still stands.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   digest, fence, lease (ms)
-- Reply  1 renewed, 0 the fence is stale

local record = redis.call('HGET', KEYS[2], ARGV[1])
if not record then return 0 end
local entry = parse(record, 'S')
if entry.fence ~= tonumber(ARGV[2]) or entry.expires <= now then return 0 end
entry.lease = now + tonumber(ARGV[3])
redis.call('HSET', KEYS[2], ARGV[1], record_of(entry))
return 1
