-- Scan: read a part of what is remembered; first the runs in flight, then the buckets of each slice.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   cursor ("" at the start), limit
-- Reply  now, next cursor ("" at the end), then digest, entry, digest, entry ...

local meta, limit = read_meta(), tonumber(ARGV[2])
local reply = {now, ''}
table.sort(meta.slices, function(a, b) return a.prefix < b.prefix end)

local function add(digest, entry)
  if entry then reply[#reply + 1], reply[#reply + 2] = digest, show(entry) end
end

local function bucket_after(prefix)
  for _, slice in ipairs(meta.slices) do
    if slice.prefix > prefix then return 'done 0 ' .. slice.prefix end
  end
  return ''
end

local function scan_started(cursor)
  local page = redis.call('HSCAN', KEYS[2], cursor, 'COUNT', limit)
  for i = 1, #page[2], 2 do
    local entry = parse(page[2][i + 1], 'S')
    if entry.expires > now then add(page[2][i], entry) end
  end
  return page[1] ~= '0' and ('started ' .. page[1]) or bucket_after('')
end

local function scan_bucket(slice, bucket)
  local fields = redis.call('HGETALL', slice.prefix .. bucket)
  for i = 1, #fields, 2 do
    if fields[i] ~= '' then add(fields[i], decode(meta, slice, fields[i + 1])) end
  end
end

local function scan_slice(bucket, prefix)
  for _, slice in ipairs(meta.slices) do
    if slice.prefix == prefix then
      while bucket < slice.buckets and #reply < 2 + 2 * limit do
        scan_bucket(slice, bucket)
        bucket = bucket + 1
      end
      if bucket < slice.buckets then return 'done ' .. bucket .. ' ' .. prefix end
    end
  end
  return bucket_after(prefix)
end

local bucket, prefix = string.match(ARGV[1], '^done (%d+) (.*)$')
if bucket then
  reply[2] = scan_slice(tonumber(bucket), prefix)
else
  reply[2] = scan_started(string.match(ARGV[1], '^started (%d+)$') or '0')
end
return reply
