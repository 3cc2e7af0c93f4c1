-- Settle: complete or release claims whose fence still stands.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   as settle.lua
-- Reply  a text of one character per digest: 1 it is now as asked (also when it was before), 0 the fence is stale or
--        another's

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

local reply, gone, asked_for = {}, {}, #ARGV / 2

local function settle_in_flight(digest, entry, asked)
  gone[#gone + 1] = digest
  if asked == 'R' then return end
  open_slice(entry.started, entry.expires - entry.started)
  insert(digest, entry.started, asked, entry.fence)
end

-- Settles one entry of a batch by itself; the batch then holds it no more.
local function settle_held(digest, entry, asked, key, slice)
  if asked == 'R' then return remove(digest, entry, key) end
  open_named(slice)
  stale = stale + 1  -- insert() takes what it replaces for stale
  insert(digest, entry.started, asked, entry.fence)
  leave_batch(entry.fence)
end

local function settle(digest, asked, fence, owner)
  local entry, key, slice = find(digest)
  if not entry then return asked == 'R' and '1' or '0' end
  if entry.state ~= 'S' then
    -- Of its fence no more was kept than this, and no owner.
    return entry.fence % FENCES == fence % FENCES and entry.state == asked and '1' or '0'
  end
  if not is_held(entry, fence, owner) then return '0' end
  if entry.batch then
    settle_held(digest, entry, asked, key, slice)
  else
    settle_in_flight(digest, entry, asked)
  end
  return '1'
end

for i = 1, asked_for do
  local asked, fence, after = struct.unpack('>c1I8', ARGV[i])
  reply[i] = settle(ARGV[asked_for + i], asked, fence, string.sub(ARGV[i], after))
end
if name then
  split()
  save()
end
if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
return table.concat(reply)
