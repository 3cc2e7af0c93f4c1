-- For scripts that walk through everything, a part at a call: first the runs in flight, then the buckets of each
-- slice. A cursor is "" at the start, "started <Redis's cursor>" or "done <bucket> <slice>".

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

-- Visits buckets from a place on; stops where `visit` says so, and returns the cursor, "" at the end.
local function walk_buckets(first, from, visit)
  for _, slice in ipairs(all_slices()) do
    if slice.name >= from then
      for bucket = slice.name == from and first or 0, slice.buckets - 1 do
        if not visit(slice, KEYS[1] .. ':' .. slice.name .. ':' .. bucket, bucket) then
          return 'done ' .. bucket .. ' ' .. slice.name
        end
      end
    end
  end
  return ''
end

-- Walks on from a cursor. `page` takes a cursor of HSCAN and returns the next, "0" at the end of it.
local function walk(cursor, page, visit)
  local bucket, slice = string.match(cursor, '^done (%d+) (.*)$')
  if bucket then return walk_buckets(tonumber(bucket), slice, visit) end
  local next_page = page(string.match(cursor, '^started (%d+)$') or '0')
  return next_page == '0' and walk_buckets(0, '', visit) or 'started ' .. next_page
end

-- Shows what a bucket of a slice holds; nil when it has expired.
local function show(slice, value)
  local shown, begins, length, step = nil, slice.begins, slice.length, slice.step
  --include show
  return shown
end
