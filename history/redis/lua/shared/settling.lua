-- Settling one claim that still has its fence, for scripts that settle few at a time. end_settling() comes last.
local gone = {}

-- `key` is nil, unless others overwrote the record: then the entry is in a bucket, and is replaced.
local function settle_in_flight(digest, entry, asked, key)
  if not key then gone[#gone + 1] = digest end
  local target
  if asked ~= 'R' then
    open_slice(entry.started, entry.expires - entry.started)
    target = insert(digest, entry.started, asked, entry.fence)
  end
  if key and key ~= target then delete_from(key, {string.sub(digest, 1, SHORT)}) end
end

-- Settles one entry of a batch separately; the batch then does not hold it any more.
local function settle_held(digest, entry, asked, key, slice)
  if asked == 'R' then return remove(digest, entry, key) end
  open_named(slice)
  stale = stale + 1  -- insert() counts the entry that it replaces as stale
  insert(digest, entry.started, asked, entry.fence)
  leave_batch(entry.fence)
end

-- Whether an entry is settled as asked, "1", or cannot be, "0"; or nil, the entry, its bucket and its slice.
local function settled(digest, asked, fence, owner)
  local entry, key, slice = find(digest)
  if not entry then return asked == 'R' and '1' or '0' end
  if entry.state ~= 'S' then
    -- No other part of its fence was kept, and no owner.
    return entry.fence % FENCES == fence % FENCES and entry.state == asked and '1' or '0'
  end
  if not is_held(entry, fence, owner) then return '0' end
  return nil, entry, key, slice
end

local function settle(digest, asked, fence, owner)
  local answer, entry, key, slice = settled(digest, asked, fence, owner)
  if answer then return answer end
  if entry.batch then
    settle_held(digest, entry, asked, key, slice)
  else
    settle_in_flight(digest, entry, asked, key)
  end
  return '1'
end

local function end_settling()
  if name then
    split()
    save()
  end
  if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
end
