-- Stats: count what is remembered, without reading the entries.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- Reply  started, completed

local meta = read_meta()
local started, completed = redis.call('HLEN', KEYS[2]), 0
for _, slice in ipairs(meta.slices) do completed = completed + slice.count - slice.removed end
local fields = redis.call('HGETALL', KEYS[3])
for i = 1, #fields, 2 do
  local number = string.match(fields[i], '^c (%d+)$')
  local batch = number and read_batch(tonumber(number))
  if batch and batch.state == 'S' then
    started, completed = started + fields[i + 1], completed - fields[i + 1]
  end
end
return {started, math.max(0, completed)}
