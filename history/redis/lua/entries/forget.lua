-- Forget: delete one entry whatever its state.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   digest
-- Reply  1 it was there, 0 it was not

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

local digest = ARGV[1]
local entry, key = find(digest)
if not entry then return 0 end
if key then
  remove(digest, entry, key)
else
  redis.call('HDEL', KEYS[1], digest)
end
return 1
