-- Purge: delete runs in flight and batches whose time to live is over. Completed entries expire by themselves.
--
-- KEYS   meta, started, batches, done (see common.lua)
-- ARGV   cursor of the walk through the runs in flight
-- Reply  next cursor ("0" at the end), how many were deleted

local deleted = 0
local page = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', 500)
for i = 1, #page[2], 2 do
  if parse(page[2][i + 1], 'S').expires <= now then
    deleted = deleted + redis.call('HDEL', KEYS[2], page[2][i])
  end
end

local function purge_batches()
  local fields = redis.call('HGETALL', KEYS[3])
  for i = 1, #fields, 2 do
    local number = string.match(fields[i], '^b (%d+)$')
    local batch = number and parse(fields[i + 1], 'S', 2)
    if batch and batch.expires <= now then
      deleted = deleted + (redis.call('HGET', KEYS[3], 'c ' .. number) or 0)
      redis.call('HDEL', KEYS[3], 'b ' .. number, 'c ' .. number)
      local token = 'o ' .. batch.owner
      if redis.call('HGET', KEYS[3], token) == number then redis.call('HDEL', KEYS[3], token) end
    end
  end
end

if page[1] == '0' then purge_batches() end
return {page[1], deleted}
