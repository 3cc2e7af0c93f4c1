-- Take over: become the owner of a STARTED entry that still has the expected fence; or of a failed one, if requested.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   as claim.lua; expected fence; digest; expected owner, or "" if any will do;
--        "failed" if a failed entry will do
-- Reply  the new fence (or the one this token has already), -1 when the fence is stale or another's

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

local digest = ARGV[3]
local lease, time_to_live, known, after = struct.unpack('>i8i8I8', ARGV[1])
local owner = string.sub(ARGV[1], after)
local entry, key = find(digest)
if not entry or entry.state ~= 'S' and not (entry.state == 'F' and ARGV[5] == 'failed') then return -1 end
if entry.state == 'S' and not entry.batch and entry.owner == owner then return entry.fence end
if not is_held(entry, tonumber(ARGV[2]), ARGV[4]) then return -1 end

if known > last_fence then
  --include shared/origin
  step_over(known)
end
last_fence = last_fence + 1
save(digest, record_of({
  fence = last_fence, started = now, lease = lease_until(lease), expires = now + time_to_live, owner = owner}))
if key then remove(digest, entry, key) end
return last_fence
