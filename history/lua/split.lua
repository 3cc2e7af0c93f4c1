-- Split: add the buckets that the counts of entries ask for.
--
-- KEYS   the trigger's history (see head.lua)
-- Reply  1

--include head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include meta
--include slices
--include entries

open(function()
  split()
  close_slice()
  return false
end)
save()
return 1
