-- Pack: make buckets of slices that have ended strings, which need less memory, a part per call.
--
-- KEYS   the trigger's history (see head.lua)
-- Reply  1 there is more to pack, 0 there is not

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices

local PIECE = 10          -- buckets that one call packs, which takes about 1 ms
local YOUNG = 64          -- a slice waits for this part of its length after its end, so that few runs end later
local LARGEST = 1000      -- entries; packing more would take too long, and hardly ever are there so many
local UNKNOWN = string.rep('\255', 5)  -- in place of a value that cannot be read, see show.lua

-- Packs a bucket, unless it is packed already: the field "meta" may come from a snapshot.
local function pack_bucket(key)
  if is_packed(key) or redis.call('HLEN', key) > LARGEST then return end
  local content, whole = content_of(key)
  for i = 2, #content, 2 do
    if #content[i] ~= 5 then content[i] = UNKNOWN end
  end
  if whole then write_packed(key, content) end  -- a missing bucket stays missing, for all who look into it
end

if fresh then return 0 end
open(function() return packed < buckets and begins + length + length / YOUNG <= now and begins + 3 * length > now end)
if not name then return 0 end
save()  -- if this account may not write the field, it must not write the buckets either
for _ = 1, math.min(PIECE, buckets - packed) do
  -- What is packed already must be noted, even if this account may not write one of the buckets.
  local done, problem = pcall(pack_bucket, KEYS[1] .. ':' .. name .. string.format(':%d', packed))
  if not done then
    save()
    error(problem, 0)
  end
  packed = packed + 1
end
save()
return 1
