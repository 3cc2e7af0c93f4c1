-- Writes an entry (`digest`, `started`, `asked`, `fence`) to its bucket in the open slice, and sets `target` to that.
local hash = struct.unpack('>I4', digest)
--include shared/bucket
local target = KEYS[1] .. ':' .. name .. string.format(':%d', bucket)
local head
if asked == 'B' then
  head = BATCH + math.floor(fence / FENCES) % UNITS
else
  head = (asked == 'O' and OK or FAILED) + math.ceil((started - begins) / step)  -- so that no entry expires early
end
local short, written, added = string.sub(digest, 1, SHORT), struct.pack('>I2I3', head, fence % FENCES), nil
if insert_into and is_packed(target) then
  added = insert_into(target, {short, written})
else
  -- Writing the bucket's own field as well costs less than a check: the count reveals a bucket that was gone.
  added = write('HSET', target, short, written, '', '')
  if added == 2 then
    redis.call('HDEL', target, short, '')
    error('LOST ' .. target, 0)
  end
end
if added == 0 and stale > 0 then stale, changed = stale - 1, true end  -- it replaces an entry of a released batch
if added == 1 and hash >= SAMPLED then count, changed = count + SAMPLE, true end
