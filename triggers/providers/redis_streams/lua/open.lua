-- Open: create the subscription where it is missing, and take the consumer's name.
--
-- KEYS   stream, consumer, delayed, dead letters (see shared/common.lua)
-- ARGV   group, name, token, claim_idle
-- Reply  1 the name is this consumer's, 0 a living consumer has it

--include shared/common
if not keep_name() then return 0 end
local made = redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
  redis.call('DEL', KEYS[2])
  return made
end
-- Its first read that finds something would make it: until then nobody could see that the subscription is consumed.
redis.call('XGROUP', 'CREATECONSUMER', stream, group, name)
return 1
