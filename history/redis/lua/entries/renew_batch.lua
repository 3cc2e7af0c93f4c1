-- Renew batch: prolong the lease of all entries of an open batch, unless that would outlive the batch.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   lease (ms), token
-- Reply  1 renewed, 0 the batch is unknown or has ended, or will be over before the lease

--include shared/head
--include shared/entries

local number = tonumber(redis.call('HGET', ledger, 'o ' .. ARGV[2]))
local batch = number and read_batch(number)
if not batch or batch.state ~= 'S' then return 0 end
batch.lease = now + ARGV[1]
if batch.lease > batch.expires then return 0 end
redis.call('HSET', ledger, field('b', number), 'S' .. record_of(batch))
return 1
