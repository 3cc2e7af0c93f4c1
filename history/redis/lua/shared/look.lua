-- Looks `digest` up, and sets `shown`. If the entry is in a bucket, sets `key` and `name`, the bucket and its slice.
-- Leaves `shown` nil when it is absent or has expired. Most entries are completed, so it looks there first. If it is
-- absent, `missed` has the `misses` buckets that were searched, so that there.lua can check that they exist.
local shown, key, name
local before, at, hash = misses, SLICES, struct.unpack('>I4', digest)
while at < #meta do
  local begins, length, step, buckets, power, _, after
  name, begins, length, step, buckets, power, _, _, after = struct.unpack(SLICE, meta, at)
  if begins + 3 * length > now then
    --include shared/bucket
    key = KEYS[1] .. ':' .. name .. string.format(':%d', bucket)
    local value = redis.call('HGET', key, digest)
    if value then
      --include shared/show
      if shown then break end
    else
      misses = misses + 1
      missed[misses] = key
    end
  end
  key, name, at = nil, nil, after
end
if not shown then
  local record = redis.call('HGET', KEYS[1], digest)
  if record and #record < RECORD then
    --include shared/spoilt
  end
  if record and struct.unpack('>I8', record, 25) > now then shown = 'S-' .. record end
end
if shown then misses = before end
