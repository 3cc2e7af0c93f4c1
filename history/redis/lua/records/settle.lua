-- Settle: make the changes of one step, and settle entries of the trigger in it.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   how many settlements; for each the outcome as in settle.lua, and its digest; and the changes (see
--        shared/records.lua). A small letter refuses an entry that was settled before. "X" turns a completed
--        entry into a failed one, if it has the fence, and is never refused
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
  local wish, answer = string.upper(asked), nil
  if wish ~= 'X' then answer = settled(ARGV[i + 1], wish, fence, string.sub(ARGV[i], after)) end
  if answer and asked ~= wish then answer = '0' end
  reply[#reply + 1] = tonumber(answer or '1')
  if answer == '0' then refused = true end
end

-- Turns a completed entry into a failed one.
local function fail(digest, fence)
  local entry, _, slice = find(digest)
  if not entry or entry.state ~= 'O' or entry.batch or entry.fence % FENCES ~= fence % FENCES then return end
  open_named(slice)
  stale = stale + 1  -- insert() counts the entry that it replaces as stale
  insert(digest, entry.started, 'F', fence)
end

local held = apply_changes(last, refused, function()
  for i = 2, last, 2 do
    local asked, fence, after = struct.unpack('>c1I8', ARGV[i])
    if asked == 'X' then
      fail(ARGV[i + 1], fence)
    else
      settle(ARGV[i + 1], string.upper(asked), fence, string.sub(ARGV[i], after))
    end
  end
  end_settling()
end)
for _, answer in ipairs(held) do reply[#reply + 1] = answer end
return reply
