-- Entries split into fields, for the scripts that change an entry. An entry is {state, fence, started, lease, expires,
-- owner, batch}, state S, O or F.

local function parse(shown)
  if not shown then return nil end
  local fence, started, lease, expires, after = struct.unpack('>I8I8I8I8', shown, 3)
  return {state = string.sub(shown, 1, 1), batch = string.sub(shown, 2, 2) == 'B', fence = fence,
          started = started, lease = lease, expires = expires, owner = string.sub(shown, after)}
end

local function record_of(entry)
  return struct.pack('>I8I8I8I8', entry.fence, entry.started, entry.lease, entry.expires) .. entry.owner
end

-- Whether an entry has this fence, and this owner, unless that is "". A server that has lost its grants may grant a
-- fence twice. A completed entry only has the low bits of its fence, and no owner.
local function is_held(entry, fence, owner)
  if entry.state ~= 'S' and not entry.batch then return entry.fence % FENCES == fence % FENCES end
  return entry.fence == fence and (owner == '' or entry.owner == owner)
end

-- Finds an entry, and the bucket and the slice that hold it, unless it is in flight.
local function find(digest)
  local misses, missed, record = 0, {}, redis.call('HGET', KEYS[1], digest)
  --include shared/live
  --include shared/look
  --include shared/there
  return parse(shown), key, name
end

local function lease_until(lease) return lease < 0 and 0 or now + lease end

local ledger = KEYS[1] .. ':batches'

-- Names a field of a batch; a plain concatenation would round a number that large.
local function field(letter, number) return letter .. string.format(' %.0f', number) end

-- Reads a batch's record in the ledger; nil when it was released, has expired or never was.
local function read_batch(number)
  local record = redis.call('HGET', ledger, field('b', number))
  local batch = record and #record > RECORD and parse(string.sub(record, 1, 1) .. 'B' .. string.sub(record, 2))
  return batch and batch.state ~= 'R' and batch.expires > now and batch or nil
end

-- Removes an entry from its batch, which then holds one less.
local function leave_batch(number) redis.call('HINCRBY', ledger, field('c', number), -1) end

-- Removes an entry from its bucket, and from its batch, if it has one.
local function remove(digest, entry, key)
  if entry.batch then leave_batch(entry.fence) end
  delete_from(key, {string.sub(digest, 1, SHORT)})
end
