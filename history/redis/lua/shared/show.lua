-- Sets `shown` to the entry of `value`, from a bucket of the slice with `begins`, `length` and `step`; leaves it nil
-- when the entry has expired. A value of another form, or of a batch with a broken record, was written by others.
local head, number, record
if #value == 5 then head, number = struct.unpack('>I2I3', value) end
if not head or head >= UNREADABLE then
  --include shared/spoilt
  shown = 'S-' .. record
elseif head < BATCH then
  local fence = last_fence - (last_fence - number) % FENCES
  local latest = begins + head % UNITS * step  -- the start, rounded up, so that no entry expires early
  if latest + 2 * length > now then
    local started = math.max(begins, latest - step)  -- rounded down: it is never in the future
    shown = struct.pack('>c2I8I8I8I8', head < FAILED and 'O-' or 'F-', fence, started, 0, latest + 2 * length)
  end
else
  -- The ledger knows the state, unless the batch was released.
  number = number + (head - BATCH) * FENCES
  --include shared/ledger
  if record and #record <= RECORD then
    --include shared/spoilt
    shown = 'S-' .. record
  elseif record and string.sub(record, 1, 1) ~= 'R' and struct.unpack('>I8', record, 26) > now then
    shown = string.sub(record, 1, 1) .. 'B' .. string.sub(record, 2)
  end
end
