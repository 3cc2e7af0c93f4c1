-- Stats: count the entries, a part per call; without reading them, only how many each bucket has.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   cursor (see walk.lua)
-- Reply  next cursor ("" at the end), started, completed, in this part

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

--include shared/walk
local started, completed, left = 0, 0, 500  -- buckets counted in one call, which takes about a millisecond

local function count_started()
  local size = redis.call('HLEN', KEYS[1])
  started = size > 0 and size - 1 or 0  -- without the field "meta"
  open(function()
    if begins + 3 * length > now then completed = completed - stale end
    return false
  end)
  return '0'
end

-- Entries of a batch are in buckets as well, but count as started until it is settled, and afterwards no more.
local function count_held(cursor)
  local page = redis.call('HSCAN', ledger, cursor, 'COUNT', 500)
  for i = 1, #page[2], 2 do
    local number = string.match(page[2][i], '^c (%d+)$')
    local batch = number and read_batch(tonumber(number))
    if batch and batch.state == 'S' then
      local held = tonumber(page[2][i + 1]) or 0
      started, completed = started + held, completed - held
    end
  end
  return page[1]
end

local function count_bucket(_, key)
  if left == 0 then return false end
  left = left - 1
  completed = completed + count_of(key)
  return true
end

local cursor = walk(ARGV[1], count_started, count_held, every_bucket, count_bucket)
return {cursor, started, completed}
