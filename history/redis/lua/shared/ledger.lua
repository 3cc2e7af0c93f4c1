-- Sets `record` to the ledger's record of a batch: the one with the low bits `number`, and an entry in the slice with
-- `begins` and `length`. It is false when the batch was forgotten, after its time to live. A plain concatenation would
-- round a number that large.
local ledger_key = KEYS[1] .. ':batches'
record = redis.call('HGET', ledger_key, string.format('b %.0f', last_fence - (last_fence - number) % (FENCES * UNITS)))
if not record then
  -- Its number may be from before a step, see origin.lua.
  local ranges = redis.call('HGET', KEYS[1] .. ':origin', 'before') or ''
  for i = #ranges - 7, 1, -16 do
    local last = struct.unpack('>I8', ranges, i)
    record = redis.call('HGET', ledger_key, string.format('b %.0f', last - (last - number) % (FENCES * UNITS)))
    if record then break end
  end
  if not record and (begins + 2 * length - 1 > now
      or redis.call('HEXISTS', ledger_key, '') < redis.call('HEXISTS', KEYS[1] .. ':origin', 'batches')) then
    error('LOST ' .. ledger_key, 0)
  end
end
