-- Looks `digest` up in the `live` slices, and then in its `record` among the runs in flight, and sets `shown`. If the
-- entry is in a bucket, sets `key` and `name`, the bucket and its slice. Leaves `shown` nil when it is absent or has
-- expired. Most entries are completed, so it looks there first. If it is absent, `missed` has the `misses` buckets
-- that were searched and may be missing, so that there.lua can check that they exist.
local shown, key, name
local before, hash, short = misses, take('>I4', digest), sub(digest, 1, SHORT)
for _, slice in ipairs(live) do
  local begins, length, step, buckets, power, packed = slice[2], slice[3], slice[4], slice[5], slice[6], slice[8]
  --include shared/bucket
  local searched = slice[1] .. text('%d', bucket)
  --include buckets/value
  if value then
    --include shared/show
    if shown then
      key, name = searched, slice[7]
      break
    end
  elseif not exists then
    misses = misses + 1
    missed[misses] = searched
  end
end
if not shown then
  --include shared/flight
end
if shown then misses = before end
