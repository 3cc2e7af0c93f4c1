-- Turn: settle one run in flight, acknowledge its message, and claim the next one, in one call.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   settle.lua's wish for one claim, and its digest, or both empty; claim.lua's terms,
--        and one digest, or both empty; stream, consumer group and entry of the message, or all three empty
-- Reply  settle.lua's reply, or ""; 1 if the message is acknowledged now, else 0; claim.lua's reply, or ""
--
-- A message is acknowledged only if its run is settled as asked, or if there is nothing to settle. An error after that
-- is harmless: settling, acknowledging and claiming under the same token can be repeated.

local function settle(KEYS, ARGV)
  --body of entries/settle
end

local function claim(KEYS, ARGV)
  --body of entries/claim
end

local settled, acknowledged, claimed = '', 0, ''
if ARGV[1] ~= '' then settled = settle(KEYS, {ARGV[1], ARGV[2]}) end
if ARGV[5] ~= '' and (settled == '' or string.sub(settled, 1, 1) == '1') then
  -- For an error, such as a user without rights on the stream, the reply is 0: the caller then does it in another way.
  acknowledged = redis.pcall('XACK', ARGV[5], ARGV[6], ARGV[7]) == 1 and 1 or 0
end
if ARGV[3] ~= '' then claimed = claim(KEYS, {ARGV[3], ARGV[4]}) end
return {settled, acknowledged, claimed}
