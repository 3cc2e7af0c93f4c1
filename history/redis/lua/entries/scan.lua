-- Scan: read a part of the entries.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   cursor (see walk.lua), limit, part, of how many (a power of 2): a part has the digests whose first 4 bytes
--        leave its number as the remainder
-- Reply  now, next cursor ("" at the end), then short digest, entry, short digest, entry ...

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

--include shared/walk
local limit, part, parts, looked_at = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), 0
local reply = {now, ''}

-- Expired entries are not shown, but take time as well.
local function enough() return #reply >= 2 + 2 * limit or looked_at >= 2 * limit end

-- The same remainder selects a bucket, so a bucket holds digests of few parts. This is also true while it is split. It
-- is read before the new bucket, so no part misses anything.
local function stride(slice)
  local ways = 1
  while ways < parts and ways * 2 <= slice.buckets do ways = ways * 2 end
  return part % ways, ways
end

local function add(digest, shown)
  looked_at = looked_at + 1
  if shown and (parts == 1 or struct.unpack('>I4', digest) % parts == part) then
    reply[#reply + 1], reply[#reply + 2] = string.sub(digest, 1, SHORT), shown
  end
end

local function scan_started(cursor)
  repeat
    local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', limit)
    for i = 1, #page[2], 2 do
      local digest, record = page[2][i], page[2][i + 1]
      if #record < RECORD then
        --include shared/spoilt
      end
      if digest ~= 'meta' then add(digest, struct.unpack('>I8', record, 25) > now and 'S-' .. record) end
    end
    cursor = page[1]
  until cursor == '0' or enough()
  return cursor
end

-- Entries of a batch are in buckets as well.
local function scan_batches() return '0' end

local function scan_bucket(slice, key)
  if enough() then return false end
  local content = content_of(key)
  looked_at = looked_at + 1
  for i = 1, #content, 2 do add(content[i], show(slice, content[i + 1])) end
  return true
end

reply[2] = walk(ARGV[1], scan_started, scan_batches, stride, scan_bucket)
return reply
