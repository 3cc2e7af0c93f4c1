-- Turn: settle one run in flight, acknowledge its message, and claim the next one, in one call.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   what settle.lua is asked of one claim, and its digest, or both empty; what claim.lua is given as its terms,
--        and one digest, or both empty; stream, consumer group and entry of the message, or all three empty
-- Reply  what settle.lua answers, or ""; 1 if the message is acknowledged now, else 0; what claim.lua answers, or ""
--
-- A message is acknowledged only when its run is settled as asked, or where there is nothing to settle. What fails
-- after that is harmless: to settle, to acknowledge and to claim under the same token can be done again.

local function settle(KEYS, ARGV)
  --body of entries/settle
end

local function claim(KEYS, ARGV)
  --body of entries/claim
end

local settled, acknowledged, claimed = '', 0, ''
if ARGV[1] ~= '' then settled = settle(KEYS, {ARGV[1], ARGV[2]}) end
if ARGV[5] ~= '' and (settled == '' or string.sub(settled, 1, 1) == '1') then
  -- An error, such as that of a user who may not touch the stream, is answered with 0: it is done another way then.
  acknowledged = redis.pcall('XACK', ARGV[5], ARGV[6], ARGV[7]) == 1 and 1 or 0
end
if ARGV[3] ~= '' then claimed = claim(KEYS, {ARGV[3], ARGV[4]}) end
return {settled, acknowledged, claimed}
