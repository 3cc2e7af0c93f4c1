-- Settle: complete or release runs in flight; the usual case of settle_any.lua, without functions.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   the wish: "O" completed ok | "F" completed failed | "R" released, the fence, and the owner, or nothing
--        if any will do, packed ...; as many digests
-- Reply  a text, which costs less than a list; one character per digest: 1 it is now as asked, 0 the fence is
--        stale or another's, ? ask settle_any.lua; then one more: + run split.lua, or .

--include shared/head
local asked_for = #ARGV / 2
local records = redis.call('HMGET', KEYS[1], 'meta', unpack(ARGV, asked_for + 1))
local meta, reply, gone = records[1], {}, {}
local name, begins, length, step, buckets, power, count, stale, at, after
local changed = false
local take, sub = struct.unpack, string.sub  -- a local is found faster
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
      while at < #meta do
        name, begins, length, step, buckets, power, count, stale, after = struct.unpack(SLICE, meta, at)
        if length == half and started >= begins and started < begins + half then break end
        name, at = nil, after
      end
    end
    local fits = name and length == half and started >= begins and started < begins + half
    if fits and asked ~= 'R' then
      --include shared/insert
    end
    if fits or asked == 'R' then gone[#gone + 1], reply[i] = digest, '1' end
  end
end

if changed then
  local slice = struct.pack(SLICE, name, begins, length, step, buckets, power, count, stale)
  redis.call('HSET', KEYS[1], 'meta', string.sub(meta, 1, at - 1) .. slice .. string.sub(meta, after))
end
if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
reply[asked_for + 1] = changed and count > buckets * LOAD and '+' or '.'
return table.concat(reply)
