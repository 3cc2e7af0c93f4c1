-- For scripts that walk through everything, a part at a call: first the runs in flight, then the ledger of batches,
-- then the buckets of each slice. A cursor is "" at the start, "started <Redis's cursor>", "batches <Redis's cursor>"
-- or "done <bucket> <slice>". What a call looks at has a bound, however much is remembered.

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

-- Visits buckets from a place on; stops where `visit` says so, and returns the cursor, "" at the end. `stride` tells
-- which buckets of a slice are asked for, by one of them and their distance, nil for none: to pass by millions that
-- are not would take its time, too.
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

-- Walks on from a cursor. `started` and `batches` take a cursor of HSCAN and return the next, "0" at the end of it.
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

-- Shows what a bucket of a slice holds; nil when it has expired.
local function show(slice, value)
  local shown, begins, length, step = nil, slice.begins, slice.length, slice.step
  --include shared/show
  return shown
end
