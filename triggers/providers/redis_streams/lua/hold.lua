-- Hold: keep a subscription without consumers at an id, so that a trim keeps what comes after it.
--
-- KEYS   stream, consumer, delayed, dead letters, later (see shared/common.lua)
-- ARGV   group, name, token, claim_idle (the last three not used), id

--include shared/common
local moved = redis.pcall('XGROUP', 'SETID', stream, group, ARGV[5])
if type(moved) == 'table' and moved.err then
  redis.call('XGROUP', 'CREATE', stream, group, ARGV[5], 'MKSTREAM')
end
return 1
