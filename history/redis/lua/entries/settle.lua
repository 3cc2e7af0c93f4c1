-- Settle: complete or release runs in flight; the usual case of settle_any.lua, without functions.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   the wish: "O" completed ok | "F" completed failed | "R" released, the fence, and the owner, or nothing
--        if any will do, packed ...; as many digests
-- Reply  a text, which costs less than a list; one character per digest: 1 it is now as asked, 0 the fence is
--        stale or another's, ? ask settle_any.lua

--include shared/head
local asked_for = #ARGV / 2
local records = redis.call('HMGET', KEYS[1], 'meta', unpack(ARGV, asked_for + 1))
local meta = records[1]
--include turning/settling_each

if changed then redis.call('HSET', KEYS[1], 'meta', meta) end
if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
if is_full then
  --include buckets/splitting
end
return table.concat(reply)
