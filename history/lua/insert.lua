-- Writes an entry, that is `digest`, `started`, `asked` and `fence`, to its bucket in the open slice.
local hash = struct.unpack('>I4', digest)
local bucket = hash % (power * 2)
if bucket >= buckets then bucket = hash % power end
local kind = asked == 'O' and OK or asked == 'F' and FAILED or BATCH
-- Rounded up, so that no entry expires early.
local value = struct.pack('>I2I3', kind + math.ceil((started - begins) / step), fence % FENCES)
local added = redis.call('HSET', KEYS[1] .. ':' .. name .. ':' .. bucket, digest, value)
if added == 0 and stale > 0 then stale, changed = stale - 1, true end  -- it replaces one of a released batch
if added == 1 and hash >= SAMPLED then count, changed = count + SAMPLE, true end
