-- Open: create the subscription if it is missing, and take the consumer's name.
--
-- KEYS   stream, consumer, delayed, dead letters (see shared/common.lua)
-- ARGV   group, name, token, claim_idle
-- Reply  1 this consumer has the name, 0 a running consumer has it

--include shared/common
if not keep_name() then return 0 end
local made = redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
  redis.call('DEL', KEYS[2])
  return made
end
-- Otherwise only its first read with an entry would make it: until then the subscription would seem unconsumed.
redis.call('XGROUP', 'CREATECONSUMER', stream, group, name)
return 1
