-- Reclaim: take over entries that are due again: recovered ones after their delay, and those of dead consumers.
-- It also moves due messages for later delivery into the stream (see shared/later.lua).
--
-- KEYS   stream, consumer, delayed, dead letters, later (see shared/common.lua)
-- ARGV   group, name, token, claim_idle, limit, "alone" | "among others", "all" | "known", id held ...
--        "alone" if no other consumer may hand out anything: what others hold is taken over immediately, because
--        a silent consumer that comes back would otherwise hold earlier entries
--        "known" after a reply may have been lost: an entry that is pending for this consumer but not among the
--        ids held never reached it, and is taken over immediately
-- Reply  {{id, delivery count, {field, value ...}} ...}, {id that is pending but no longer in the stream ...},
--        ms until the next delivery time or -1, 1 if there may be more to take immediately, {new name of a key
--        that was renamed ...}; nil when another consumer has the name

--include shared/common
--include shared/later

-- How many idle entries one call checks.
local SCAN = 1000

if not keep_name() then return false end
local now, limit, more = server_time(), tonumber(ARGV[5]), 0

local function release_unknown()
  local held, unknown = {}, {}
  for i = 8, #ARGV do held[ARGV[i]] = true end
  for _, row in ipairs(redis.call('XPENDING', stream, group, '-', '+', SCAN, name)) do
    if not held[row[1]] then unknown[#unknown + 1] = row[1] end
  end
  set_owner(WAITING, READY, unknown)
end

local function release_rivals()
  for _, rival in ipairs(redis.call('XPENDING', stream, group)[4] or {}) do
    if rival[1] ~= WAITING and rival[1] ~= name then
      local ids = {}
      for i, row in ipairs(redis.call('XPENDING', stream, group, '-', '+', SCAN, rival[1])) do ids[i] = row[1] end
      set_owner(WAITING, READY, ids)
    end
  end
end

-- A member of the delayed set that another program has added is not the id of a pending entry: it is dropped.
local function release_due()
  set_aside_unless(KEYS[3], 'zset')
  local waiting, due = {}, redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(due) do
    local asked, ours = pcall(owns, WAITING, id)
    if asked and ours then waiting[#waiting + 1] = id end
    redis.call('ZREM', KEYS[3], id)
  end
  set_owner(WAITING, READY, waiting)
  if #due == limit then more = 1 end
end

-- Entries that wait for their delay also become idle: their idle time is reset, and they are not taken. (They are
-- pending as well, not only in the sorted set, so that they survive a loss of that key.)
local function find_idle()
  local delayed = redis.call('EXISTS', KEYS[3]) == 1
  local found, early = {}, {}
  for _, row in ipairs(redis.call('XPENDING', stream, group, 'IDLE', claim_idle, '-', '+', SCAN)) do
    if delayed and row[2] == WAITING and redis.call('ZSCORE', KEYS[3], row[1]) then
      early[#early + 1] = row[1]
    else
      found[#found + 1] = row
    end
  end
  if #found + #early == SCAN then more = 1 end
  set_owner(WAITING, 0, early)
  return found
end

local function take_some(rows, entries)
  local ids, taken = {}, {}
  for i, row in ipairs(rows) do ids[i] = row[1] end
  -- Without JUSTID the delivery count grows by one; entries that left the stream are no longer pending.
  for _, entry in ipairs(#ids > 0 and redis.call('XCLAIM', stream, group, name, 0, unpack(ids)) or {}) do
    if entry then taken[entry[1]] = entry[2] end
  end
  for _, row in ipairs(rows) do
    if taken[row[1]] then
      entries[#entries + 1] = {row[1], row[4] + 1, taken[row[1]]}
    else
      gone[#gone + 1] = row[1]
      redis.call('XACK', stream, group, row[1])
    end
  end
end

-- Entries that left the stream do not count: otherwise others would wait behind any number of deleted ones.
local function take(rows)
  local entries, at = {}, 1
  while at <= #rows and #entries < limit do
    local some = {unpack(rows, at, math.min(#rows, at + limit - #entries - 1))}
    at = at + #some
    take_some(some, entries)
  end
  if at <= #rows then more = 1 end
  return {entries, gone}
end

-- Dead consumers would otherwise stay in the group for ever. A consumer that was only slow is created again by
-- its next read.
local function bury(rows)
  for _, row in ipairs(rows) do
    local owner = row[2]
    if owner ~= WAITING and owner ~= name and #redis.call('XPENDING', stream, group, '-', '+', 1, owner) == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, owner)
    end
  end
end

if ARGV[7] == 'known' then release_unknown() end
if ARGV[6] == 'alone' then release_rivals() end
release_due()
local pause = deliver_later_ones(limit)
local rows = find_idle()
local reply = take(rows)
bury(rows)
reply[3], reply[4], reply[5] = pause, more, aside
return reply
