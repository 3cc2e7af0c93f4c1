-- Claim for an attempt: for each digest, write STARTED if it is absent, and return what was there.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   lease (ms, -1 none), time to live (ms), the greatest fence that the client knows of, owner token, packed;
--        digest ...
-- Reply  now, epoch (negative if the data are older than that fence, see origin.lua), then one per digest: the
--        fence, if it was absent and is claimed now, else the entry

--include shared/head
local records = redis.call('HMGET', KEYS[1], 'meta', unpack(ARGV, 2))
local meta = records[1]
--include turning/claiming_each
return reply
