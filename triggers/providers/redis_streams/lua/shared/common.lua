-- Included by every script of the Redis Streams provider.
--
-- Keys, all in one slot (see settings.py):
--   KEYS[1]  <stream>                      STREAM  the destination; its consumer group is the subscription
--   KEYS[2]  ...:consumer:<group>:<name>   STRING  token of the running consumer of this name, expires with it
--   KEYS[3]  ...:delayed:<group>           ZSET    entry id -> when it may be delivered again (ms since 1970)
--   KEYS[4]  ...:dlq                      STREAM  the dead letters
--   KEYS[5]  ...:later                    ZSET    message of a later delivery time -> that time (ms since 1970)
-- ARGV[1..4]  group, consumer's name, its token, claim_idle (ms)

local stream, group, name, token, claim_idle = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

-- The consumer that owns recovered entries until a real one takes them. If the consumer that recovered them kept
-- them, its next keep_alive could count them among the entries in work.
local WAITING = 'doubtless:waiting'

-- An idle time beyond every claim_idle: take over immediately. One year.
local READY = 31536000000

local function server_time()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function has_name()
  local holder = redis.call('GET', KEYS[2])
  return not holder or holder == token
end

-- Takes or renews the name; false when another consumer has it now.
local function keep_name()
  if not has_name() then return false end
  redis.call('SET', KEYS[2], token, 'PX', claim_idle)
  return true
end

-- Whether an entry is pending, and for this consumer.
local function owns(consumer, id)
  return redis.call('XPENDING', stream, group, id, id, 1, consumer)[1] ~= nil
end

-- Ids that were pending, and that Redis does not have any more: their entries were deleted or trimmed.
local gone = {}

-- JUSTID leaves the delivery count as it is. Since 7.0, XCLAIM drops deleted entries and leaves them out of its reply.
local function set_owner(owner, idle, ids)
  if #ids > 0 then
    local options = {'IDLE', string.format('%.0f', idle), 'JUSTID'}
    local words, claimed = {unpack(ids)}, {}
    for _, word in ipairs(options) do words[#words + 1] = word end
    for _, id in ipairs(redis.call('XCLAIM', stream, group, owner, 0, unpack(words))) do claimed[id] = true end
    for _, id in ipairs(ids) do
      if not claimed[id] then gone[#gone + 1] = id end
    end
  end
end

-- Foreign values that were under our keys, by their new names.
local aside = {}

-- Renames a key of ours that another program has filled with a different type, so that it does not stop us.
local function set_aside_unless(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then
    local away = key .. ':foreign:' .. string.format('%.0f', server_time())
    redis.call('RENAME', key, away)
    aside[#aside + 1] = away
  end
end
