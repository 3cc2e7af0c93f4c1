-- Look up: read entries without claiming.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   digest ...
-- Reply  now, then one per digest: the entry, or "" when absent

--include shared/head
local records = redis.call('HMGET', KEYS[1], 'meta', unpack(ARGV))
local meta = records[1]
--include shared/meta
local reply = {now}
local misses, missed = 0, {}
--include shared/live

for i = 1, #ARGV do
  local digest, record = ARGV[i], records[i + 1]
  --include shared/look
  reply[i + 1] = shown or ''
end
--include shared/there
return reply
