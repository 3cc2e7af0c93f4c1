-- Writing to the buckets of a slice. One slice is open at a time, as locals; its name is nil while none is.
local name, begins, length, step, buckets, power, count, removed

-- Writes the open slice, and the last fence, back to `meta`. Slices that have ended are left out.
local function pack_meta()
  local packed = struct.pack('>I8I8', last_fence, epoch)
  if name then
    packed = packed .. struct.pack(SLICE, name, begins, length, step, buckets, power, count, math.max(0, removed))
  end
  local at = SLICES
  while at < #meta do
    local other, other_begins, other_length, _, _, _, _, _, after = struct.unpack(SLICE, meta, at)
    if other ~= name and other_begins + 3 * other_length > now then
      packed = packed .. string.sub(meta, at, after - 1)
    end
    at = after
  end
  meta = packed
end

-- Opens the slice of entries that start then and live so long.
local function open_slice(started, time_to_live)
  local long = math.ceil(time_to_live / 2)
  local index = math.floor(started / long)
  if name and long == length and begins == index * long then return end
  if name then pack_meta() end
  local at = SLICES
  while at < #meta do
    local after
    name, begins, length, step, buckets, power, count, removed, after = struct.unpack(SLICE, meta, at)
    if length == long and begins == index * long then return end
    at = after
  end
  name, begins, length, step = string.format('%.0f:%.0f', long, index), index * long, long, math.ceil(long / UNITS)
  buckets, power, count, removed = 1, 1, 0, 0
end

local function key_of(bucket) return KEYS[1] .. ':' .. name .. ':' .. bucket end

-- Makes a bucket expire with its slice. An emptied one gets an empty field, so that its expiry stays.
local function keep(key)
  if redis.call('EXISTS', key) == 0 then redis.call('HSET', key, '', '') end
  redis.call('PEXPIREAT', key, begins + 3 * length + 1000)
end

-- Adds a bucket, and moves to it the entries that now hash there.
local function split()
  local added, source, target = buckets, key_of(buckets - power), key_of(buckets)
  buckets = buckets + 1
  local fields, moved, gone = redis.call('HGETALL', source), {}, {}
  for i = 1, #fields, 2 do
    if fields[i] ~= '' and struct.unpack('>I4', fields[i]) % (power * 2) == added then
      moved[#moved + 1], moved[#moved + 2], gone[#gone + 1] = fields[i], fields[i + 1], fields[i]
    end
  end
  if #moved > 0 then
    redis.call('HSET', target, unpack(moved))
    redis.call('HDEL', source, unpack(gone))
  end
  keep(source)
  keep(target)
  if buckets == power * 2 then power = buckets end
end

-- Writes an entry to its bucket in the open slice.
local function insert(digest, started, kind, number)
  local hash = struct.unpack('>I4', digest)
  local bucket = hash % (power * 2)
  if bucket >= buckets then bucket = hash % power end
  local key = key_of(bucket)
  local value = struct.pack('>I2I3', kind + math.min(UNITS - 1, math.ceil((started - begins) / step)), number % FENCES)
  if redis.call('HSET', key, digest, value) == 0 then
    -- What stood there had been counted out: an entry of a released batch.
    removed = removed - 1
    return
  end
  if count == 0 then keep(key) end
  count = count + 1
  if count > buckets * LOAD then split() end
end
