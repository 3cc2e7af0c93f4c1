-- Purge: delete, a part at a call, what has expired: runs in flight, batches, and completed entries whose slice
-- has not ended yet. Those of a slice that has ended are gone already.
--
-- KEYS   the trigger's history (see common.lua)
-- ARGV   cursor ("" at the start)
-- Reply  next cursor ("" at the end), how many were deleted

local BUCKETS = 50  -- looked through in one call, which takes about 3 ms

local deleted, ledger = 0, KEYS[1] .. ':batches'
table.sort(order, function(a, b) return a.name < b.name end)

local function purge_started(cursor)
  local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 500)
  for i = 1, #page[2], 2 do
    if page[2][i] ~= 'meta' and not show_started(page[2][i + 1]) then
      deleted = deleted + redis.call('HDEL', KEYS[1], page[2][i])
    end
  end
  return page[1]
end

-- Forgets a batch; what it held is absent without its record, and vanishes with its slice.
local function purge_batch(number, batch)
  local held = tonumber(redis.call('HGET', ledger, 'c ' .. number)) or 0
  local slice = slice_for(batch.started, batch.expires - batch.started)
  slice.removed, deleted = slice.removed + held, deleted + held
  redis.call('HDEL', ledger, 'b ' .. number, 'c ' .. number)
  local token = 'o ' .. batch.owner
  if redis.call('HGET', ledger, token) == number then redis.call('HDEL', ledger, token) end
end

local function purge_batches()
  local fields = redis.call('HGETALL', ledger)
  for i = 1, #fields, 2 do
    local number = string.match(fields[i], '^b (%d+)$')
    local batch = number and parse('-' .. fields[i + 1])
    if batch and batch.expires <= now then purge_batch(number, batch) end
  end
end

local function purge_bucket(slice, key)
  local fields, gone = redis.call('HGETALL', key), {}
  for i = 1, #fields, 2 do
    local plain = fields[i] ~= '' and struct.unpack('>I2', fields[i + 1]) < BATCH
    if plain and not show_done(fields[i + 1], slice.length, slice.index) then gone[#gone + 1] = fields[i] end
  end
  if #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
    refill_if_gone(slice, key)
    slice.removed, deleted = slice.removed + #gone, deleted + #gone
  end
end

local function purge_done(first, name)
  local left = BUCKETS
  for _, slice in ipairs(order) do
    if slice.name >= name and (slice.index + 2) * slice.length <= now then
      for bucket = slice.name == name and first or 0, math.ceil(slice.count / LOAD) - 1 do
        if left == 0 then return 'done ' .. bucket .. ' ' .. slice.name end
        purge_bucket(slice, key_of(slice, bucket))
        left = left - 1
      end
    end
  end
  return ''
end

local next_cursor
local bucket, name = string.match(ARGV[1], '^done (%d+) (.*)$')
if bucket then
  next_cursor = purge_done(tonumber(bucket), name)
else
  next_cursor = purge_started(ARGV[1] == '' and '0' or ARGV[1])
  if next_cursor == '0' then
    purge_batches()
    next_cursor = purge_done(0, '')
  end
end
if deleted > 0 then save() end
return {next_cursor, deleted}
