-- Purge: delete expired records, a part per call: runs in flight, batches, and completed entries whose slice has not
-- ended yet. Entries of an ended slice are gone already.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   cursor (see walk.lua)
-- Reply  next cursor ("" at the end), how many were deleted

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

--include shared/walk
-- How many fields of a hash and how many buckets one call reads, which takes about 3 ms. The ledger has three fields
-- for each batch, and deleting it costs more than reading it.
local IN_FLIGHT, IN_LEDGER = 500, 300
local deleted, left, is_saved = 0, 50, true

-- Forgets a batch; without its record, its entries are absent, and vanish with their slice, if that has not ended.
local function purge_batch(number, batch)
  local held = math.max(0, tonumber(redis.call('HGET', ledger, 'c ' .. number)) or 0)
  local half = math.ceil((batch.expires - batch.started) / 2)
  local begin = math.floor(batch.started / half) * half
  if not name or length ~= half or begins ~= begin then
    open(function() return length == half and begins == begin end)
  end
  if name then stale, is_saved = stale + held, false end
  deleted = deleted + held
  redis.call('HDEL', ledger, 'b ' .. number, 'c ' .. number)
  local token = 'o ' .. batch.owner
  if redis.call('HGET', ledger, token) == number then redis.call('HDEL', ledger, token) end
end

local function purge_batches(cursor)
  local page = redis.call('HSCAN', ledger, cursor, 'COUNT', IN_LEDGER)
  for i = 1, #page[2], 2 do
    local number, record = string.match(page[2][i], '^b (%d+)$'), page[2][i + 1]
    if number and #record > RECORD and struct.unpack('>I8', record, 26) <= now then
      purge_batch(number, parse('-' .. record))
    end
  end
  return page[1]
end

local function purge_started(cursor)
  local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', IN_FLIGHT)
  for i = 1, #page[2], 2 do
    local digest, record = page[2][i], page[2][i + 1]
    if digest ~= 'meta' and #record >= RECORD and struct.unpack('>I8', record, 25) <= now then
      deleted = deleted + redis.call('HDEL', KEYS[1], digest)
    end
  end
  return page[1]
end

local function stride(slice)
  if slice.begins + 2 * slice.length <= now then return 0, 1 end
end

local function purge_bucket(slice, key)
  if left == 0 then return false end
  left = left - 1
  local content, gone = content_of(key), {}
  for i = 1, #content, 2 do
    local plain = #content[i + 1] == 5 and struct.unpack('>I2', content[i + 1]) < BATCH
    if plain and not show(slice, content[i + 1]) then gone[#gone + 1] = content[i] end
  end
  -- A packed bucket is written anew, so few entries wait for more.
  if #gone > 0 and (#gone * 8 >= #content or not is_packed(key)) then deleted = deleted + delete_from(key, gone) end
  return true
end

local cursor = walk(ARGV[1], purge_started, purge_batches, stride, purge_bucket)
if not is_saved then save() end
return {cursor, deleted}
