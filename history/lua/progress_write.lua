-- Progress: keep the record of a batch, if it follows the one that is held.
--
-- KEYS   the trigger's history (see head.lua)
--   ...:progress          HASH  query -> the batch that changed last
--   ...:progress:<query>  HASH  batch -> revision, a space, and the record (JSON)
-- ARGV   query, batch, revision, record, batch to forget, milliseconds for which the query is remembered
-- Reply  1 it is held now, 0 it does not follow

local progress = string.sub(KEYS[1], 1, -8) .. 'progress'  -- in the place of "history"
local key, text = progress .. ':' .. ARGV[1], ARGV[3] .. ' ' .. ARGV[4]
local held = redis.call('HGET', key, ARGV[2])
if held == text then return 1 end
local revision = held and tonumber(string.match(held, '^%d+')) or 0
if tonumber(ARGV[3]) ~= revision + 1 then return 0 end
redis.call('HSET', key, ARGV[2], text)
redis.call('HDEL', key, ARGV[5])
redis.call('HSET', progress, ARGV[1], ARGV[2])
redis.call('PEXPIRE', key, ARGV[6])
redis.call('PEXPIRE', progress, ARGV[6])
return 1
