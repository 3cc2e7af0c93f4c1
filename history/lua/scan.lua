-- Scan: read a part of what is remembered; first the runs in flight, then the buckets of each slice.
--
-- KEYS   the trigger's history (see common.lua)
-- ARGV   cursor ("" at the start), limit
-- Reply  now, next cursor ("" at the end), then digest, entry, digest, entry ...

local limit, looked_at = tonumber(ARGV[2]), 0
local reply = {now, ''}
table.sort(order, function(a, b) return a.name < b.name end)

-- What has expired is not shown, but takes its time too.
local function enough() return #reply >= 2 + 2 * limit or looked_at >= 10 * limit end

local function add(digest, shown)
  looked_at = looked_at + 1
  if shown then reply[#reply + 1], reply[#reply + 2] = digest, shown end
end

local function scan_started(cursor)
  repeat
    local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', limit)
    for i = 1, #page[2], 2 do
      if page[2][i] ~= 'meta' then add(page[2][i], show_started(page[2][i + 1])) end
    end
    cursor = page[1]
  until cursor == '0' or enough()
  return cursor ~= '0' and 'started ' .. cursor
end

local function scan_bucket(slice, bucket)
  local fields = redis.call('HGETALL', key_of(slice, bucket))
  looked_at = looked_at + 1
  for i = 1, #fields, 2 do
    if fields[i] ~= '' then add(fields[i], show_done(fields[i + 1], slice.length, slice.index)) end
  end
end

local function scan_done(first, name)
  for _, slice in ipairs(order) do
    if slice.name >= name then
      for bucket = slice.name == name and first or 0, math.ceil(slice.count / LOAD) - 1 do
        if enough() then return 'done ' .. bucket .. ' ' .. slice.name end
        scan_bucket(slice, bucket)
      end
    end
  end
  return ''
end

local bucket, name = string.match(ARGV[1], '^done (%d+) (.*)$')
if bucket then
  reply[2] = scan_done(tonumber(bucket), name)
else
  reply[2] = scan_started(string.match(ARGV[1], '^started (%d+)$') or '0') or scan_done(0, '')
end
return reply
