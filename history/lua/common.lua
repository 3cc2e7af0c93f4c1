-- Shared by every script of the document history; prepended to each of them.
--
-- Keys, all in one slot because they share the hash tag {trigger}:
--   KEYS[1]  ...:meta     HASH  "fence" -> last fence, "epoch" -> id of this data set,
--                               "slices" -> per time slice 4 x 8 bytes: length, index, entries, of these removed
--   KEYS[2]  ...:started  HASH  digest -> record, the few runs in flight
--   KEYS[3]  ...:batches  HASH  "o <token>" -> number, "c <number>" -> entries held,
--                               "b <number>" -> state S, O, F or R(eleased), then a record whose fence is the number
--   KEYS[4]  ...:done     prefix of the buckets <prefix>:<length>:<index>:<bucket>,
--                         HASH  digest -> 5 bytes: 2 bits kind, 14 bits start time, 24 bits fence or batch number
--
-- A record is 4 x 8 bytes, fence, started, lease, expires, and then the owner. Instants are milliseconds since
-- 1970 on this server; a lease of 0 means none. A reply shows an entry as its state S, O or F, "B" for a batch's
-- or "-", and a record.
--
-- Completed entries are compact: a slice of time is a linear hash table of small hashes, which Redis keeps as
-- listpacks of under 30 bytes an entry. A slice is half the time to live long, so at most three are looked at,
-- and each bucket expires by itself when the last entry of its slice has.

local LOAD = 64          -- entries per bucket on average; never more than about 170 in one
local UNITS = 16384      -- steps of a slice in which a start time is kept
local FENCES = 16777216  -- a completed entry keeps the low 24 bits of its fence
local OK, FAILED, BATCH = 0, 1, 2
local RECORD = '>I8I8I8I8'

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Fixes the number of buckets that a slice's count asks for.
local function size_slice(slice)
  slice.buckets = math.max(1, math.ceil(slice.count / LOAD))
  local power = 1
  while power * 2 <= slice.buckets do power = power * 2 end
  slice.power = power
end

local function slice_of(length, index, count, removed)
  local slice = {length = length, index = index, count = count, removed = removed,
                 unit = math.ceil(length / UNITS), ends = (index + 3) * length,
                 prefix = KEYS[4] .. string.format(':%.0f:%.0f:', length, index)}
  size_slice(slice)
  return slice
end

local function read_meta()
  local fields = redis.call('HMGET', KEYS[1], 'fence', 'epoch', 'slices')
  local meta = {fence = tonumber(fields[1] or nil), epoch = fields[2], slices = {}}
  if not meta.fence then
    -- Fences begin at the microseconds since 1970, so that they still grow after a flush.
    meta.fence = clock[1] * 1000000 + clock[2]
    redis.call('HSET', KEYS[1], 'fence', string.format('%.0f', meta.fence))
  end
  local packed, at = fields[3], 1
  while packed and at < #packed do
    local length, index, count, removed, after = struct.unpack(RECORD, packed, at)
    if (index + 3) * length > now then
      meta.slices[#meta.slices + 1] = slice_of(length, index, count, removed)
    end
    at = after
  end
  return meta
end

-- Linear hashing: while a table grows from 2^n to 2^(n+1) buckets, those below the split point are halved already.
local function bucket_key(slice, digest)
  local a, b, c, d = string.byte(digest, 1, 4)
  local hash = ((a * 256 + b) * 256 + c) * 256 + d
  local bucket = hash % (slice.power * 2)
  if bucket >= slice.buckets then bucket = hash % slice.power end
  return slice.prefix .. bucket
end

-- An entry is {state, fence, started, lease, expires, owner, batch}, state S, O or F.

local function parse(record, state, at)
  local fence, started, lease, expires, after = struct.unpack(RECORD, record, at or 1)
  return {state = state, fence = fence, started = started, lease = lease, expires = expires,
          owner = string.sub(record, after)}
end

local function record_of(entry)
  return struct.pack(RECORD, entry.fence, entry.started, entry.lease, entry.expires) .. entry.owner
end

local function show(entry)
  return entry.state .. (entry.batch and 'B' or '-') .. record_of(entry)
end

local batches = {}

-- Returns the ledger's record of a batch, or nil when it was released, has expired or never was.
local function read_batch(number)
  if batches[number] == nil then
    local record, batch = redis.call('HGET', KEYS[3], string.format('b %.0f', number)), false
    if record then
      batch = parse(record, string.sub(record, 1, 1), 2)
      batch.batch = true
      if batch.state == 'R' or batch.expires <= now then batch = false end
    end
    batches[number] = batch
  end
  return batches[number] or nil
end

local function decode(meta, slice, value)
  local head, number = struct.unpack('>I2I3', value)
  local kind, fence = math.floor(head / UNITS), meta.fence - (meta.fence - number) % FENCES
  if kind == BATCH then return read_batch(fence) end
  local started = slice.index * slice.length + (head % UNITS) * slice.unit
  local expires = started + 2 * slice.length
  if expires <= now then return nil end
  return {state = kind == OK and 'O' or 'F', fence = fence, started = math.min(started, now), lease = 0,
          expires = expires, owner = ''}
end

-- Returns the completed or batch-held entry of a digest, and where it stands; nil when absent or expired.
local function find_done(meta, digest)
  for _, slice in ipairs(meta.slices) do
    local key = bucket_key(slice, digest)
    local value = redis.call('HGET', key, digest)
    if value then
      local entry = decode(meta, slice, value)
      if entry then return entry, slice, key end
    end
  end
  return nil
end

local function find(meta, digest, record)
  if record then
    local entry = parse(record, 'S')
    if entry.expires > now then return entry end
  end
  return find_done(meta, digest)
end

local function lease_until(lease) return lease < 0 and 0 or now + lease end
