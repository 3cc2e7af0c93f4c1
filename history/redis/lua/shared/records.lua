-- Records beside the entries, in keys that begin like KEYS[1], with this instead of "history":
--
--   ...:<kind>:<key>   STRING  version, a blank, value; it expires by itself
--   ...:<kind>         HASH    for a listed kind: key -> version, a dot, the time of the last write, a blank, value; with
--   ...:<kind>:keys    ZSET    its keys, all with the score 0, and
--   ...:<kind>:times   ZSET    its keys by the time of their last write, unless the kind is lasting
--   ...:<log>          STREAM  about, line
--
-- ARGV, after `before` others: "each" change is independent, or "all" together; then eight words for each change:
--   "put", place, "", version, least and greatest version that may be stored, value, milliseconds to live or "";
--     the version "next" is the stored version and 1
--   "list", kind, key, and the rest as above | "last", as "list", for a lasting kind
--   "drop", place | "unlist", kind, first key, last key | "add", log, about, line, how many are kept or ""
--   "get", place, "", required | "look", kind, key, required; required is "any", a version, or "" if it is not
--   "now"
--
-- If `refused`, no change is made. `first` is called before the first write.
--
-- The answer to each change is now, in milliseconds since 1970. For a refused change, "get" and "look" it is the
-- stored record, "" if there is none. Then whether all were made. Redis does not undo a script that fails half way, so
-- it writes first and deletes last.

local LONGEST_COUNT = 15  -- digits; a longer version is spoilt

-- Compares digits, because a number of Lua is exact only up to 2^53.
local function is_less(one, other) return #one < #other or (#one == #other and one < other) end

local function prolong(key, time_to_live)
  if time_to_live == '' then
    redis.call('PERSIST', key)
  else
    local left = redis.call('PTTL', key)
    if left ~= -1 and left < tonumber(time_to_live) then redis.call('PEXPIRE', key, time_to_live) end
  end
end

local function unlist(place, key)
  redis.call('HDEL', place, key)
  redis.call('ZREM', place .. ':times', key)
  redis.call('ZREM', place .. ':keys', key)
end

local function apply_changes(before, refused, first)
  local tag, each, held, made = string.sub(KEYS[1], 1, -8), ARGV[before + 1] == 'each', {}, not refused
  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local function write(at, same)
    local place, key, lasts = tag .. ARGV[at + 1], ARGV[at + 2], ARGV[at + 7]
    if ARGV[at] == 'put' then
      if same then return prolong(place, lasts) end
      local text = ARGV[at + 3] .. ' ' .. ARGV[at + 6]
      if lasts == '' then redis.call('SET', place, text) else redis.call('SET', place, text, 'PX', lasts) end
      return
    end
    local fresh = redis.call('EXISTS', place) == 0
    redis.call('ZADD', place .. ':keys', 0, key)
    if ARGV[at] == 'list' then redis.call('ZADD', place .. ':times', now, key) end
    redis.call('HSET', place, key, ARGV[at + 3] .. string.format('.%d ', now) .. ARGV[at + 6])
    for _, name in ipairs({':keys', ':times', ''}) do
      if fresh and lasts ~= '' then redis.call('PEXPIRE', place .. name, lasts) else prolong(place .. name, lasts) end
    end
  end

  local function read(at, listed)
    local place = tag .. ARGV[at + 1]
    return listed and redis.call('HGET', place, ARGV[at + 2]) or not listed and redis.call('GET', place)
  end

  local puts, others = {}, {}
  for at = before + 2, #ARGV, 8 do
    local index, op = #held + 1, ARGV[at]
    held[index] = now
    if op == 'get' or op == 'look' then
      held[index] = read(at, op == 'look') or ''
      local required, version = ARGV[at + 3], string.match(held[index], '^%d+')
      if required ~= '' and (held[index] == '' or required ~= 'any' and required ~= version) then made = false end
    elseif op == 'put' or op == 'list' or op == 'last' then
      local text = read(at, op ~= 'put')
      local version, same = text and string.match(text, '^%d+') or '0', false
      if ARGV[at + 3] == 'next' then
        ARGV[at + 3] = string.format('%d', (#version <= LONGEST_COUNT and version or 0) + 1)
      elseif text then same = string.gsub(text, '^(%d+)%.%d+ ', '%1 ') == ARGV[at + 3] .. ' ' .. ARGV[at + 6] end
      if same or not (is_less(version, ARGV[at + 4]) or is_less(ARGV[at + 5], version)) then
        puts[#puts + 1] = {at, same}
      else
        held[index], made = text or '', false
      end
    else
      others[#others + 1] = at
    end
  end
  if not (each or made) then return held, false end
  if first then first() end
  for _, put in ipairs(puts) do write(put[1], put[2]) end
  for _, at in ipairs(others) do
    local op, place = ARGV[at], tag .. ARGV[at + 1]
    if op == 'add' then
      local most = ARGV[at + 4]
      if most == '' then most = '9007199254740992' end
      redis.call('XADD', place, 'MAXLEN', '~', most, '*', 'about', ARGV[at + 2], 'line', ARGV[at + 3])
    end
  end
  for _, at in ipairs(others) do
    local op, place = ARGV[at], tag .. ARGV[at + 1]
    if op == 'drop' then
      redis.call('DEL', place)
    elseif op == 'unlist' then
      for _, key in ipairs(redis.call('ZRANGEBYLEX', place .. ':keys', '[' .. ARGV[at + 2], '[' .. ARGV[at + 3])) do
        unlist(place, key)
      end
    end
  end
  return held, made
end
