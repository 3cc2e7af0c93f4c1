-- Forget: delete one entry whatever its state.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   digest
-- Reply  1 it was there, 0 it was not

local meta, digest = read_meta(), ARGV[1]
local entry, slice, key = find(meta, digest, redis.call('HGET', KEYS[2], digest))
if not entry then return 0 end
redis.call('HDEL', KEYS[2], digest)
if key then
  remove_done(meta, slice, key, digest)
  if entry.batch then redis.call('HINCRBY', KEYS[3], string.format('c %.0f', entry.fence), -1) end
  write_meta(meta)
end
return 1
