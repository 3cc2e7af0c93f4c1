-- Where the data come from, for what happens once in a while: it begins, or is found to be older than it was.
--
-- <KEYS[1]>:origin is a hash. "epoch" is the one of these data: while it stands there, KEYS[1] must be there, too.
-- "batches" says the same of the ledger. "server" is the run id of the server on which fences have been granted.
-- "low" is the first fence that may have been granted since the last long step, "before" the first and the last one
-- before each of those steps (8 bytes each), the oldest first.
--
-- A server that comes back with older data (a snapshot, a second that was not on disk yet, a replica that lagged)
-- would grant fences that were granted before, and nobody who is left may know how many those were. But fences begin
-- at the microseconds since 1970, and grow by one with each claim, which takes Redis longer than one microsecond.
-- So none that was ever granted is greater than the microseconds since 1970 now, and it is safe to step there, how
-- much was lost and how often this happens, as long as clocks do not go back by more than what has passed since.
--
-- A long step leaves the numbers of batches behind, of which an entry keeps no more than the low 38 bits: that is 76
-- hours of microseconds. So the ranges that were in use are kept, and what is not found as of now is looked for as of
-- then (see ledger.lua). A shorter step stays in the range. A range is dropped when no slice is older than its end;
-- with one step in 76 hours at most, there are few. Two batches must not have the same low bits, or the older would
-- take the younger one's state: so a long step goes on to where no range is met for a long time.
local origin = KEYS[1] .. ':origin'
local SPAN = FENCES * UNITS  -- how many numbers of batches can be told apart
local APART = SPAN / 1024    -- hardly more are granted in one time to live; five minutes of microseconds

local function keep_range(low, target)
  local oldest = now
  local at = SLICES
  while at < #meta do
    local _, begins, after
    _, begins, _, _, _, _, _, _, after = struct.unpack(SLICE, meta, at)
    oldest, at = math.min(oldest, begins), after
  end
  local ranges, kept = redis.call('HGET', origin, 'before') or '', ''
  for i = 1, #ranges, 16 do
    local ended = i + 16 < #ranges and struct.unpack('>I8', ranges, i + 16) or low
    if ended >= oldest * 1000 then kept = kept .. string.sub(ranges, i, i + 15) end
  end
  kept = kept .. struct.pack('>I8I8', low, last_fence)
  for i = 1, #kept, 16 do
    local first, last = struct.unpack('>I8I8', kept, i)
    local ahead = (first - target) % SPAN
    if ahead < APART or ahead + (last - first) >= SPAN then target = target + (ahead + last - first + 1) % SPAN end
  end
  redis.call('HSET', origin, 'before', kept, 'low', string.format('%.0f', target + 1))
  return target
end

-- Steps over every fence that can have been granted: those until now, and the one that a client knows of.
local function step_over(known)
  local target = math.max(clock[1] * 1000000 + clock[2], known)
  if target <= last_fence then return end
  local low = tonumber(redis.call('HGET', origin, 'low') or epoch)
  if target - low >= SPAN then target = keep_range(low, target) end
  last_fence = target
end
