-- Take over: become the owner of a STARTED entry that still has the expected fence.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   digest, owner token, lease (ms, -1 none), time to live (ms), expected fence
-- Reply  the new fence (or the one this token has already), -1 when the fence is stale

local digest, owner = ARGV[1], ARGV[2]
local meta = read_meta()
local entry, slice, key = find(meta, digest, redis.call('HGET', KEYS[2], digest))
if not entry or entry.state ~= 'S' then return -1 end
if not entry.batch and entry.owner == owner then return entry.fence end
if entry.fence ~= tonumber(ARGV[5]) then return -1 end

if entry.batch then
  remove_done(meta, slice, key, digest)
  redis.call('HINCRBY', KEYS[3], string.format('c %.0f', entry.fence), -1)
  write_meta(meta)
end
local fence = redis.call('HINCRBY', KEYS[1], 'fence', 1)
redis.call('HSET', KEYS[2], digest, record_of({
  fence = fence, started = now, lease = lease_until(tonumber(ARGV[3])), expires = now + tonumber(ARGV[4]),
  owner = owner}))
return fence
