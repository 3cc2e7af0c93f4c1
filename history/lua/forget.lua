-- Forget: delete one entry whatever its state.
--
-- KEYS   the trigger's history (see common.lua)
-- ARGV   digest
-- Reply  1 it was there, 0 it was not

local digest = ARGV[1]
local entry, slice, key = find(digest)
if not entry then return 0 end
if key then
  remove_done(slice, key, digest)
  if entry.batch then leave_batch(entry.fence) end
  save()
else
  redis.call('HDEL', KEYS[1], digest)
end
return 1
