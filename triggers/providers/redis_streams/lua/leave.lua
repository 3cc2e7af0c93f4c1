-- Leave: give back unsettled entries, then remove the consumer from the group and free its name.
--
-- KEYS   stream, consumer, delayed, dead letters (see shared/common.lua)
-- ARGV   group, name, token, claim_idle
-- Reply  {id that is no longer in the stream ...}

--include shared/common
-- Another consumer may have the name and the entries.
if not has_name() then return gone end
-- First, because the later commands fail when the stream is gone.
redis.call('DEL', KEYS[2])
repeat
  local ids = {}
  for i, row in ipairs(redis.call('XPENDING', stream, group, '-', '+', 1000, name)) do ids[i] = row[1] end
  set_owner(WAITING, READY, ids)
until #ids == 0
redis.call('XGROUP', 'DELCONSUMER', stream, group, name)
return gone
