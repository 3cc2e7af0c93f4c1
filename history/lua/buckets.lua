-- Writing to the buckets of completed and batch-held entries; prepended to the scripts that do, after common.lua.

local function keep_until_slice_ends(key, slice)
  redis.call('PEXPIREAT', key, string.format('%.0f', slice.ends + 1000))
end

-- An emptied bucket keeps one empty field, so that its expiry stays.
local function refill_if_gone(key, slice)
  if redis.call('EXISTS', key) == 0 then
    redis.call('HSET', key, '', '')
    keep_until_slice_ends(key, slice)
  end
end

-- Adds a bucket and moves to it the entries that now hash there.
local function split(slice)
  local source = slice.prefix .. (slice.buckets - slice.power)
  local target = slice.prefix .. slice.buckets
  size_slice(slice)
  local fields, moved, names = redis.call('HGETALL', source), {}, {}
  for i = 1, #fields, 2 do
    if fields[i] ~= '' and bucket_key(slice, fields[i]) == target then
      moved[#moved + 1], moved[#moved + 2] = fields[i], fields[i + 1]
      names[#names + 1] = fields[i]
    end
  end
  if #moved > 0 then
    redis.call('HSET', target, unpack(moved))
    redis.call('HDEL', source, unpack(names))
    keep_until_slice_ends(target, slice)
  else
    refill_if_gone(target, slice)
  end
  refill_if_gone(source, slice)
end

local function slice_for(meta, started, time_to_live)
  local length = math.ceil(time_to_live / 2)
  local index = math.floor(started / length)
  for _, slice in ipairs(meta.slices) do
    if slice.index == index and slice.length == length then return slice end
  end
  local slice = slice_of(length, index, 0, 0)
  table.insert(meta.slices, 1, slice)
  return slice
end

local function insert(meta, started, time_to_live, digest, kind, number)
  local slice = slice_for(meta, started, time_to_live)
  meta.changed = true
  local step = math.min(UNITS - 1, math.ceil((started - slice.index * slice.length) / slice.unit))
  local key = bucket_key(slice, digest)
  if redis.call('HSET', key, digest, struct.pack('>I2I3', kind * UNITS + step, number % FENCES)) == 0 then
    -- What stood there had been counted out: an entry of a released batch.
    slice.removed = slice.removed - 1
    return
  end
  if slice.count == 0 then keep_until_slice_ends(key, slice) end
  slice.count = slice.count + 1
  if slice.count > slice.buckets * LOAD then split(slice) end
end

local function remove_done(meta, slice, key, digest)
  redis.call('HDEL', key, digest)
  refill_if_gone(key, slice)
  slice.removed = slice.removed + 1
  meta.changed = true
end

-- Writes the slices back; read_meta() has left out those that have ended.
local function write_meta(meta)
  if not meta.changed then return end
  local packed = {}
  for i, slice in ipairs(meta.slices) do
    packed[i] = struct.pack(RECORD, slice.length, slice.index, slice.count, math.max(0, slice.removed))
  end
  redis.call('HSET', KEYS[1], 'slices', table.concat(packed))
end
