-- Look up: read entries without claiming.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   digest ...
-- Reply  now, then one per digest: the entry, or "" when absent

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
local reply = {now}
local misses, missed = 0, {}

for i = 1, #ARGV do
  local digest = ARGV[i]
  --include shared/look
  reply[i + 1] = shown or ''
end
--include shared/there
return reply
