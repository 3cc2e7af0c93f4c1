-- Renew: prolong the lease of a STARTED entry whose fence still stands; one of a batch prolongs the batch's.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   fence, lease (ms), digest
-- Reply  1 renewed, 0 the fence is stale

--include head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include meta
--include slices
--include entries

local digest = ARGV[3]
local entry = find(digest)
if not entry or entry.state ~= 'S' or entry.fence ~= tonumber(ARGV[1]) then return 0 end
entry.lease = now + ARGV[2]
if entry.batch then
  redis.call('HSET', ledger, field('b', entry.fence), 'S' .. record_of(entry))
else
  redis.call('HSET', KEYS[1], digest, record_of(entry))
end
return 1
