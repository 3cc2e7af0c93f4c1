-- Take over: become the owner of a STARTED entry that still has the expected fence.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   lease (ms, -1 none), time to live (ms), owner token, packed; expected fence; digest
-- Reply  the new fence (or the one this token has already), -1 when the fence is stale

--include head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include meta
--include slices
--include entries

local digest = ARGV[3]
local lease, time_to_live, after = struct.unpack('>i8i8', ARGV[1])
local owner = string.sub(ARGV[1], after)
local entry, key = find(digest)
if not entry or entry.state ~= 'S' then return -1 end
if not entry.batch and entry.owner == owner then return entry.fence end
if entry.fence ~= tonumber(ARGV[2]) then return -1 end

if entry.batch then remove(digest, entry, key) end
last_fence = last_fence + 1
save()
redis.call('HSET', KEYS[1], digest, record_of({
  fence = last_fence, started = now, lease = lease_until(lease), expires = now + time_to_live, owner = owner}))
return last_fence
