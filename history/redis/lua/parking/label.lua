-- Parking: write the labels of messages that are about to be parked, and count their copies. The messages are written
-- after this. A crash between the two leaves a label without a message, which counts for nothing.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   id, its time in seconds, label (JSON), digest of its uuid and id ...
--
--   ...:parked          HASH  id -> the message (JSON)
--   ...:parked:order    ZSET  id by time
--   ...:parked:labels   HASH  id -> label (JSON); a label is stale if its time differs from the order
--   ...:parked:uuids    ZSET  digest of the uuid, then id; all with the score 0
--   ...:parked:copies   HASH  id -> how often it was parked, if more than once
--   ...:decisions       STREAM  the decisions: token, decision (JSON), messages (JSON), answers; see decide.lua

local parked = string.sub(KEYS[1], 1, -8) .. 'parked'  -- instead of "history"
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
