-- Purge: delete, a part at a call, what has expired: runs in flight, batches, and completed entries whose slice
-- has not ended yet. Those of a slice that has ended are gone already.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   cursor (see walk.lua)
-- Reply  next cursor ("" at the end), how many were deleted

--include head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include meta
--include slices
--include entries

--include walk
local deleted, left = 0, 50  -- buckets looked through in one call, which takes about 3 ms

-- Forgets a batch; what it held is absent without its record, and vanishes with its slice.
local function purge_batch(number, batch)
  local held = tonumber(redis.call('HGET', ledger, 'c ' .. number)) or 0
  open_slice(batch.started, batch.expires - batch.started)
  stale, deleted = stale + held, deleted + held
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

local function purge_started(cursor)
  local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 500)
  for i = 1, #page[2], 2 do
    local digest, record = page[2][i], page[2][i + 1]
    if digest ~= 'meta' and struct.unpack('>I8', record, 25) <= now then
      deleted = deleted + redis.call('HDEL', KEYS[1], digest)
    end
  end
  if page[1] == '0' then purge_batches() end
  return page[1]
end

local function purge_bucket(slice, key)
  if slice.begins + 2 * slice.length > now then return true end
  if left == 0 then return false end
  left = left - 1
  local fields, gone = redis.call('HGETALL', key), {}
  for i = 1, #fields, 2 do
    local plain = fields[i] ~= '' and struct.unpack('>I2', fields[i + 1]) < BATCH
    if plain and not show(slice, fields[i + 1]) then gone[#gone + 1] = fields[i] end
  end
  if #gone > 0 then deleted = deleted + redis.call('HDEL', key, unpack(gone)) end
  return true
end

local cursor = walk(ARGV[1], purge_started, purge_bucket)
if name then save() end
return {cursor, deleted}
