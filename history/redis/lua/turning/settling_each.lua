-- Settles runs in flight, in the usual case: `asked_for` wishes in ARGV, then as many digests, whose `records` were
-- read after `meta`. Sets `reply`, and `gone`, the digests to delete from KEYS[1] last. Where `changed` is true, `meta`
-- has changed, and is to be written. Where `is_full` is true, splitting.lua is to come after that.
local reply, gone, changed, is_full = {}, {}, false, false
local name, begins, length, step, buckets, power, packed, count, stale, at, after
if meta and string.byte(meta) ~= LAYOUT then error('SPOILT ' .. KEYS[1], 0) end
local take, sub = struct.unpack, string.sub  -- a local is found faster
local insert_into, write = nil, redis.pcall  -- settle_any.lua writes to packed buckets
local half, starts, ends  -- of the last record: what is claimed together has the same times

for i = 1, asked_for do
  local asked, fence = take('>c1I8', ARGV[i])
  local digest, record, held, started, lease, expires = ARGV[asked_for + i], records[i + 1], nil, nil, nil, 0
  if record and #record >= RECORD then
    held, started, lease, expires = take('>I8I8I8I8', record)
    -- If a server lost its data and granted a fence twice, the owners distinguish the claims.
    if #ARGV[i] > 9 and sub(record, 33) ~= sub(ARGV[i], 10) then held = nil end
  end
  reply[i] = expires > now and held ~= fence and '0' or '?'
  if expires > now and held == fence then
    if started ~= starts or expires ~= ends then
      half, starts, ends = math.ceil((expires - started) / 2), started, expires
    end
    if asked ~= 'R' and not name then
      at = SLICES
      while meta and at < #meta do
        name, begins, length, step, buckets, power, packed, count, stale, after = struct.unpack(SLICE, meta, at)
        if length == half and started >= begins and started < begins + half and packed == 0 then break end
        name, at = nil, after
      end
    end
    local fits = name and length == half and started >= begins and started < begins + half
    if fits and asked ~= 'R' then
      --include shared/insert
      fits = type(added) == 'number'  -- the field "meta" does not count all packed buckets
    end
    if fits or asked == 'R' then gone[#gone + 1], reply[i] = digest, '1' end
  end
end

if changed then
  is_full = count > buckets * LOAD
  local slice = struct.pack(SLICE, name, begins, length, step, buckets, power, packed, count, stale)
  meta = sub(meta, 1, at - 1) .. slice .. sub(meta, after)
end
