-- Forget: delete one entry in any state, the fingerprint of the first body, and the run's result and failure.
--
-- KEYS   the trigger's history (see head.lua); beside it doubtless:{<trigger>}:fingerprint:<digest>,
--        doubtless:{<trigger>}:result:<digest> and doubtless:{<trigger>}:failure:<digest>, in the same slot
-- ARGV   digest
-- Reply  1 one of them existed, 0 none did

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

local digest = ARGV[1]
local entry, key = find(digest)
local name = string.gsub(digest, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
local tag = string.sub(KEYS[1], 1, -8)
local gone = redis.call('DEL', tag .. 'fingerprint:' .. name, tag .. 'result:' .. name, tag .. 'failure:' .. name)
if not entry then return math.min(gone, 1) end
if key then
  remove(digest, entry, key)
else
  redis.call('HDEL', KEYS[1], digest)
end
return 1
