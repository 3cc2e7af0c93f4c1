-- The origin of the data, for rare events: they begin, or turn out to be older than before.
--
-- <KEYS[1]>:origin is a hash. "epoch" is that of these data: while the field exists, KEYS[1] must exist as well.
-- "batches" means the same for the ledger. "server" is the run id of the server on which fences have been granted.
-- "low" is the first fence that may have been granted since the last long step. "before" has the first and the last
-- fence before each of those steps (8 bytes each), the oldest first.
--
-- A server may come back with older data: a snapshot, a second that was not on disk yet, a replica that lagged. It
-- would grant old fences again, and maybe no client knows how many were lost. But fences begin at the microseconds
-- since 1970, and grow by one with each claim, which takes Redis longer than one microsecond. So no granted fence is
-- greater than the microseconds since 1970 now. It is safe to step there, however much was lost and however often,
-- unless clocks go back by more than the time since then.
--
-- A long step leaves the numbers of batches behind: an entry keeps only the low 38 bits, which are 76 hours of
-- microseconds. So the old ranges are kept, and a batch that is not found in the present range is looked up in the
-- earlier ones (see ledger.lua). A shorter step stays in the range. A range is dropped when no slice is older than its
-- end. There are few, with at most one step in 76 hours. Two batches must not have the same low bits, or the older
-- would get the state of the younger. So a long step goes on to a number that does not meet a range for a long time.
local origin = KEYS[1] .. ':origin'
local SPAN = FENCES * UNITS  -- how many numbers of batches can be distinguished
local APART = SPAN / 1024    -- one time to live rarely has more grants; five minutes of microseconds

local function keep_range(low, target)
  local oldest = now
  local at = SLICES
  while at < #meta do
    local _, begins, after
    _, begins, _, _, _, _, _, _, _, after = struct.unpack(SLICE, meta, at)
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

-- Steps over every fence that can have been granted: all until now, and the fence that a client knows.
local function step_over(known)
  local target = math.max(clock[1] * 1000000 + clock[2], known)
  if target <= last_fence then return end
  local low = tonumber(redis.call('HGET', origin, 'low') or epoch)
  if target - low >= SPAN then target = keep_range(low, target) end
  last_fence = target
end
