-- Renew: prolong leases of STARTED entries with their fence, and their lives, to outlast the lease. For an entry of a
-- batch, prolong the batch's lease, unless that would outlive the batch: its entries expire with their slice.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   lease (ms); the fence, and the owner, or nothing if any will do, packed ...; as many digests
-- Reply  a text of one character per digest: 1 renewed, 0 the fence is stale or another's, the batch will be over, or
--        a key is gone that may have had the entry: that must not keep the others from being renewed

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

local function renew(digest, fence, owner)
  local looked, entry = pcall(find, digest)
  if not looked or not entry or entry.state ~= 'S' or not is_held(entry, fence, owner) then return '0' end
  entry.lease = now + ARGV[1]
  if entry.batch then
    if entry.lease > entry.expires then return '0' end
    redis.call('HSET', ledger, field('b', entry.fence), 'S' .. record_of(entry))
    return '1'
  end
  -- To twice the longest time that the run may have taken, rounded up to its time to live times a power of two. A
  -- completed entry is kept in the slices of its time to live, and each length has separate slices.
  local life = entry.expires - entry.started
  while life < 2 * (entry.lease - entry.started) do life = 2 * life end
  entry.expires = entry.started + life
  redis.call('HSET', KEYS[1], digest, record_of(entry))
  return '1'
end

local reply, asked_for = {}, (#ARGV - 1) / 2
for i = 1, asked_for do
  local asked = ARGV[1 + i]
  local fence, after = struct.unpack('>I8', asked)
  reply[i] = renew(ARGV[1 + asked_for + i], fence, string.sub(asked, after))
end
return table.concat(reply)
