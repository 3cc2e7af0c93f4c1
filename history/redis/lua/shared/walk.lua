-- For scripts that walk through all data, a part per call: first the runs in flight, then the ledger of batches, then
-- the buckets of each slice. A cursor is "" at the start, "started <Redis's cursor>", "batches <Redis's cursor>" or
-- "done <bucket> <slice>". Each call reads a limited amount, however many entries there are.

-- Lists the slices that have not ended, by name.
local function all_slices()
  local all = {}
  open(function()
    if begins + 3 * length > now then
      all[#all + 1] = {name = name, begins = begins, length = length, step = step, buckets = buckets}
    end
    return false
  end)
  table.sort(all, function(a, b) return a.name < b.name end)
  return all
end

-- Visits buckets from a place on; stops if `visit` returns false, and returns the cursor, "" at the end. `stride`
-- selects buckets of a slice, by one of them and their distance; nil means none. Visiting millions of others would take
-- time as well.
local function walk_buckets(first, from, stride, visit)
  for _, slice in ipairs(all_slices()) do
    local one, distance = stride(slice)
    if slice.name >= from and one then
      local bucket = slice.name == from and first or 0
      for bucket = bucket + (one - bucket) % distance, slice.buckets - 1, distance do
        if not visit(slice, KEYS[1] .. ':' .. slice.name .. ':' .. bucket, bucket) then
          return 'done ' .. bucket .. ' ' .. slice.name
        end
      end
    end
  end
  return ''
end

-- Walks on from a cursor. `started` and `batches` take a cursor of HSCAN and return the next, "0" at its end.
local function walk(cursor, started, batches, stride, visit)
  local bucket, slice = string.match(cursor, '^done (%d+) (.*)$')
  if bucket then return walk_buckets(tonumber(bucket), slice, stride, visit) end
  local hash, from = string.match(cursor, '^(%l+) (%d+)$')
  if hash ~= 'batches' then
    local following = started(from or '0')
    if following ~= '0' then return 'started ' .. following end
    from = '0'
  end
  local following = batches(from)
  return following == '0' and walk_buckets(0, '', stride, visit) or 'batches ' .. following
end

local function every_bucket() return 0, 1 end

-- Shows an entry of a bucket of a slice; nil when it has expired.
local function show(slice, value)
  local shown, begins, length, step = nil, slice.begins, slice.length, slice.step
  --include shared/show
  return shown
end
