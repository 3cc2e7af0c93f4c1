-- Parking: note what is about to be parked, and how often it was. Its message is written after this: what a crash
-- leaves between the two is a label without a message, which is as good as none.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   id, its time in seconds, label (JSON), digest of its uuid and id ...
--
--   ...:parked          HASH  id -> the message (JSON)
--   ...:parked:order    ZSET  id by time
--   ...:parked:labels   HASH  id -> label (JSON); one whose time is not that of the order is stale
--   ...:parked:uuids    ZSET  digest of the uuid, then id; all with the score 0
--   ...:parked:copies   HASH  id -> how often it was parked, for what was parked more than once
--   ...:decisions       STREAM  what was decided: token, decision (JSON), messages (JSON), answers; see decide.lua

local parked = string.sub(KEYS[1], 1, -8) .. 'parked'  -- in the place of "history"
for i = 1, #ARGV, 4 do
  local id = ARGV[i]
  redis.call('ZADD', parked .. ':order', ARGV[i + 1], id)
  redis.call('HSET', parked .. ':labels', id, ARGV[i + 2])
  redis.call('ZADD', parked .. ':uuids', 0, ARGV[i + 3])
  if redis.call('HEXISTS', parked, id) == 1 then
    redis.call('HSETNX', parked .. ':copies', id, 1)
    redis.call('HINCRBY', parked .. ':copies', id, 1)
  else
    redis.call('HDEL', parked .. ':copies', id)
  end
end
