-- Split: add the buckets that are needed for the number of entries.
--
-- KEYS   the trigger's history (see head.lua)
-- Reply  1

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

open(function()
  split()
  close_slice()
  return false
end)
save()
return 1
