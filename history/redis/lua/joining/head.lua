-- The beginning of every script of joins: the keys. Include it after shared/head.lua.
--
-- Keys; all begin like KEYS[1], up to the colon, so that they are in its slot:
--   ...:joins            HASH  activation -> number of its open period
--   ...:joins:due        ZSET  number of each period -> when a call must check it; inf for never
--   ...:joins:<number>   HASH  one period: "activation", "started", "state" open, ready or expired, "owner", "taken";
--                              "p <destination>" -> digest (16 bytes), fence (8 bytes), message (JSON)
--
-- The number of a period is a fence, as text: a plain concatenation would round such a large number.
local joins = string.sub(KEYS[1], 1, -8) .. 'joins'  -- instead of "history"
local due = joins .. ':due'

-- Shows a period: number, then fields and values.
local function shown_period(number)
  return {number, redis.call('HGETALL', joins .. ':' .. number)}
end

local function hand_out(number, owner, hold)
  local key = joins .. ':' .. number
  redis.call('HSET', key, 'owner', owner)
  redis.call('HINCRBY', key, 'taken', 1)
  redis.call('ZADD', due, now + hold, number)
  return shown_period(number)
end
