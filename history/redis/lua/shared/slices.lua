--include buckets/forms

-- Writing to slices. One slice is open at a time, in locals, and is in `meta` from `at` to before `after`; its name is
-- nil while none is open. Call save() after all writes, and before deleting the replaced data.
local name, begins, length, step, buckets, power, packed, count, stale
local at, after, changed = SLICES, SLICES, false

local function close_slice()
  local slice = name and struct.pack(SLICE, name, begins, length, step, buckets, power, packed, count, stale) or ''
  meta = string.sub(meta, 1, at - 1) .. slice .. string.sub(meta, after)
  after = at + #slice
end

local moved_from = {}  -- a bucket and what it held before it was split, ...

-- Writes `meta`, and records of runs in flight, if given: digest, record ...
local function save(...)
  close_slice()
  redis.call('HSET', KEYS[1], 'meta', struct.pack(META, LAYOUT, last_fence, epoch) .. string.sub(meta, SLICES), ...)
  if fresh then
    redis.call('HSET', KEYS[1] .. ':origin', 'epoch', string.format('%.0f', epoch))
    fresh = false
  end
  for i = 1, #moved_from, 2 do delete_from(moved_from[i], moved_from[i + 1]) end
  moved_from = {}
end

-- Opens each slice in turn, until `wanted` is true; otherwise none is open at the end.
local function open(wanted)
  close_slice()
  after = SLICES
  repeat
    at, name = after, nil
    if at > #meta then return end
    name, begins, length, step, buckets, power, packed, count, stale, after = struct.unpack(SLICE, meta, at)
  until wanted()
end

local function open_named(wanted)
  if name ~= wanted then open(function() return name == wanted end) end
end

-- Begins a bucket. It may be there already, even packed, if the field "meta" is from a snapshot or was deleted.
local function begin_bucket(key)
  if not is_packed(key) then redis.call('HSET', key, '', '') end
  redis.call('PEXPIREAT', key, begins + 3 * length + 1000)
end

local function drop_ended_slices()
  local kept = string.sub(meta, 1, SLICES - 1)
  open(function()
    if begins + 3 * length > now then kept = kept .. string.sub(meta, at, after - 1) end
    return false
  end)
  meta, at, after = kept, SLICES, SLICES
end

-- Opens the slice of entries with this start and time to live; if it does not exist, begins it with one bucket.
local function open_slice(started, time_to_live)
  local half = math.ceil(time_to_live / 2)
  local begin = math.floor(started / half) * half
  if name and length == half and begins == begin then return end
  open(function() return length == half and begins == begin end)
  if name then return end
  drop_ended_slices()
  name, begins, length, step = string.format('%.0f:%.0f', half, begin / half), begin, half, math.ceil(half / (UNITS - 1))
  buckets, power, packed, count, stale = 1, 1, 0, 0, 0
  begin_bucket(KEYS[1] .. ':' .. name .. ':0')
  save()  -- as in split(), if something fails later
end

-- Adds a bucket, and moves to it the entries whose hash belongs there now.
local function add_bucket()
  local prefix, added, moved, gone = KEYS[1] .. ':' .. name .. ':', buckets, {}, {}
  local source, target = prefix .. (added - power), prefix .. added
  local fields, whole = content_of(source)
  for i = 1, #fields, 2 do
    if struct.unpack('>I4', fields[i]) % (power * 2) == added then
      moved[#moved + 1], moved[#moved + 2], gone[#gone + 1] = fields[i], fields[i + 1], fields[i]
    end
  end
  if not whole then error('LOST ' .. source, 0) end
  begin_bucket(target)
  if #moved > 0 then
    insert_into(target, moved)
    moved_from[#moved_from + 1], moved_from[#moved_from + 2] = source, gone
  end
  buckets = added + 1
  if buckets == power * 2 then power = buckets end
end

-- Adds the buckets that are needed for the number of entries.
local function split()
  while count > buckets * LOAD do
    local done, problem = pcall(add_bucket)
    if not done then
      save()  -- a bucket that is added, but not noted, would later bring back entries that were deleted meanwhile
      error(problem, 0)
    end
  end
end

local write = redis.call

local function insert(digest, started, asked, fence)
  --include shared/insert
  return target
end
