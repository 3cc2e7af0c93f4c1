-- Lists the `live` slices, those that have not ended, for look.lua: the beginning of a bucket's key, begin, length, step,
-- buckets, power, name and packed buckets.
local take, text = struct.unpack, string.format  -- a local is found faster
local call, try, sub, locate = redis.call, redis.pcall, string.sub, string.find
local live, at = {}, SLICES
while at < #meta do
  local name, begins, length, step, buckets, power, packed, _, _, after = take(SLICE, meta, at)
  if begins + 3 * length > now then
    live[#live + 1] = {KEYS[1] .. ':' .. name .. ':', begins, length, step, buckets, power, name, packed}
  end
  at = after
end
