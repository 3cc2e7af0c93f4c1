-- Settle batches: complete or release every entry that they still hold, with one write for each batch; all or none.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   "O" | "F" | "R"; how many batches; their tokens; and changes (see shared/records.lua), or nothing
-- Reply  1 it is now as asked, 0 nothing is written: a batch is unknown or has ended otherwise, or a record is
--        not as a change expects

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries
--include shared/records

local asked, last, open = ARGV[1], 2 + tonumber(ARGV[2]), {}
for i = 3, last do
  local token = 'o ' .. ARGV[i]
  local number = tonumber(redis.call('HGET', ledger, token))
  local batch = number and read_batch(number)
  if batch and batch.state == 'S' then
    open[#open + 1] = {token = token, number = number, batch = batch}
  elseif asked ~= (batch and batch.state or 'R') then
    return 0
  end
end
if ARGV[last + 1] then
  local _, made = apply_changes(last)
  if not made then return 0 end
end

for _, one in ipairs(open) do
  local batch, number = one.batch, one.number
  redis.call('HSET', ledger, field('b', number), asked .. record_of(batch))
  if asked == 'R' then
    -- Opened again, the batch gets another number, so that what it held before stays absent.
    open_slice(batch.started, batch.expires - batch.started)
    -- Rows of a claim that failed half way are not counted, and the count may be less than 0.
    stale = stale + math.max(0, tonumber(redis.call('HGET', ledger, field('c', number))) or 0)
    redis.call('HDEL', ledger, one.token, field('c', number))
  end
end
if name then save() end
return 1
