-- Settle what is not in flight: what a batch holds, and what is completed or absent already.
--
-- KEYS   the trigger's history (see common.lua)
-- ARGV   as settle.lua
-- Reply  one per digest: 1 it is now as asked (also when it was before), 0 the fence is stale

local reply, count = {}, #ARGV / 2

-- Settles one entry of a batch by itself; the batch then holds it no more.
local function settle_held(entry, slice, key, digest, asked)
  if asked == 'R' then
    remove_done(slice, key, digest)
  else
    put(slice, key, digest, entry.started, asked == 'O' and OK or FAILED, entry.fence)
  end
  leave_batch(entry.fence)
  save()
end

local function settle(digest, asked, fence)
  local entry, slice, key = find(digest)
  if not entry then return asked == 'R' and 1 or 0 end
  if entry.fence ~= fence then return 0 end
  if entry.state ~= 'S' then return entry.state == asked and 1 or 0 end
  if not entry.batch then return 0 end  -- in flight again since settle.lua looked, so under another fence
  settle_held(entry, slice, key, digest, asked)
  return 1
end

for i = 1, count do
  local asked, fence = struct.unpack('>c1I8', ARGV[i])
  reply[i] = settle(ARGV[count + i], asked, fence)
end
return reply
