-- Turn: settle one run in flight, acknowledge its message, and claim the next one, in one call.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   settle.lua's wish for one claim, and its digest, or both empty; claim.lua's terms,
--        and one digest, or both empty; stream, consumer group and entry of the message, or nothing
-- Reply  a text, which costs less than lists: settle.lua's reply, or "-"; 1 if the message is acknowledged now, else 0;
--        for a claim, claim.lua's reply: now, epoch, and the fence (8 bytes each), or now, epoch, and the entry
--
-- A message is acknowledged only if its run is settled as asked, or if there is nothing to settle. An error after that
-- is harmless: settling, acknowledging and claiming under the same token can be repeated.
--
-- It does what settle.lua and claim.lua do, but it reads the time, `meta` and both records once, and writes `meta` once.

--include shared/head
local read = redis.call('HMGET', KEYS[1], 'meta', ARGV[2], ARGV[4])
local meta, settled, acknowledged, claimed = read[1], '-', '0', ''
local is_unwritten, ended = false, nil  -- whether `meta` has changed; the digest of the run that has ended
local has_full_slice = false

if ARGV[1] ~= '' then
  local ARGV, asked_for, records = ARGV, 1, read
  --include turning/settling_each
  settled, ended, is_unwritten, has_full_slice = reply[1], gone[1], changed, is_full
end
if ended and ended == ARGV[4] then
  -- The next message is a copy. Its claim must not meet the run that has ended.
  redis.call('HDEL', KEYS[1], ended)
  read[3], ended = false, nil
end
if ARGV[5] and (settled == '-' or settled == '1') then
  -- For an error, such as a user without rights on the stream, the reply is 0: the caller then does it in another way.
  acknowledged = redis.pcall('XACK', ARGV[5], ARGV[6], ARGV[7]) == 1 and '1' or '0'
end
if ARGV[3] ~= '' then
  local ARGV, records = {ARGV[3], ARGV[4]}, {meta, read[3]}
  --include turning/claiming_each
  local shown = reply[3]
  if type(shown) == 'number' then shown = struct.pack('>I8', shown) end
  claimed, is_unwritten = struct.pack('>i8i8', reply[1], reply[2]) .. shown, is_unwritten and not writes
end
if is_unwritten then redis.call('HSET', KEYS[1], 'meta', meta) end
if ended then redis.call('HDEL', KEYS[1], ended) end
if has_full_slice then
  --include buckets/splitting
end
return settled .. acknowledged .. claimed
