-- Renew: prolong the lease of a STARTED entry whose fence still stands; one of a batch prolongs the batch's.
--
-- KEYS   the trigger's history (see common.lua)
-- ARGV   fence, lease (ms), digest
-- Reply  1 renewed, 0 the fence is stale

local digest = ARGV[3]
local entry = find(digest)
if not entry or entry.state ~= 'S' or entry.fence ~= tonumber(ARGV[1]) then return 0 end
entry.lease = now + ARGV[2]
if entry.batch then
  redis.call('HSET', KEYS[1] .. ':batches', field('b', entry.fence), 'S' .. record_of(entry))
else
  redis.call('HSET', KEYS[1], digest, record_of(entry))
end
return 1
