-- Settle: make the changes of one step, and settle entries of the trigger in it.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   how many settlements; for each the outcome as in settle.lua, and its digest; and the changes (see
--        shared/records.lua)
-- Reply  for each settlement 1, or 0 if it is refused; then for each change as apply.lua
--
-- Entries come first and deletions last: if a crash comes between the two, a parked copy is closed later.

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries
--include shared/settling
--include shared/records

local last, reply, refused = 1 + 2 * ARGV[1], {}, false
for i = 2, last, 2 do
  local asked, fence, after = struct.unpack('>c1I8', ARGV[i])
  local answer = settled(ARGV[i + 1], asked, fence, string.sub(ARGV[i], after)) or '1'
  reply[#reply + 1] = tonumber(answer)
  if answer == '0' then refused = true end
end

local held = apply_changes(last, refused, function()
  for i = 2, last, 2 do
    local asked, fence, after = struct.unpack('>c1I8', ARGV[i])
    settle(ARGV[i + 1], asked, fence, string.sub(ARGV[i], after))
  end
  end_settling()
end)
for _, answer in ipairs(held) do reply[#reply + 1] = answer end
return reply
