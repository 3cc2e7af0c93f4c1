-- Renew: prolong the lease of a STARTED entry whose fence still stands, and its life, lest it end before the lease;
-- one of a batch prolongs the batch's lease, unless that would outlive the batch: its entries expire with their slice.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   fence, lease (ms), digest, owner, or "" where any will do
-- Reply  1 renewed, 0 the fence is stale or another's, or the batch will be over

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

local digest = ARGV[3]
local entry = find(digest)
if not entry or entry.state ~= 'S' or not is_held(entry, tonumber(ARGV[1]), ARGV[4]) then return 0 end
entry.lease = now + ARGV[2]
if entry.batch then
  if entry.lease > entry.expires then return 0 end
  redis.call('HSET', ledger, field('b', entry.fence), 'S' .. record_of(entry))
  return 1
end
-- To twice as long as the run may have taken by then, rounded up to its time to live times a power of two: an entry
-- is kept in the slices of its time to live once it has completed, and each length has slices of its own.
local life = entry.expires - entry.started
while life < 2 * (entry.lease - entry.started) do life = 2 * life end
entry.expires = entry.started + life
redis.call('HSET', KEYS[1], digest, record_of(entry))
return 1
