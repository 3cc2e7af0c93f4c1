-- Lists the `live` slices, those that have not ended, for look.lua: the beginning of a bucket's key, begin, length, step,
-- buckets, power and name.
local call, take, text = redis.call, struct.unpack, string.format  -- a local is found faster
local live, at = {}, SLICES
while at < #meta do
  local name, begins, length, step, buckets, power, _, _, after = take(SLICE, meta, at)
  if begins + 3 * length > now then
    live[#live + 1] = {KEYS[1] .. ':' .. name .. ':', begins, length, step, buckets, power, name}
  end
  at = after
end
