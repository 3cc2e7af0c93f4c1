-- Writes an entry, that is `digest`, `started`, `asked` and `fence`, to its bucket in the open slice.
local hash = struct.unpack('>I4', digest)
--include bucket
local head
if asked == 'B' then
  head = BATCH + math.floor(fence / FENCES) % UNITS
else
  head = (asked == 'O' and OK or FAILED) + math.ceil((started - begins) / step)  -- so that none expires early
end
local value = struct.pack('>I2I3', head, fence % FENCES)
local added = redis.call('HSET', KEYS[1] .. ':' .. name .. ':' .. bucket, digest, value)
if added == 0 and stale > 0 then stale, changed = stale - 1, true end  -- it replaces one of a released batch
if added == 1 and hash >= SAMPLED then count, changed = count + SAMPLE, true end
