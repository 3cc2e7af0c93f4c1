-- Parking: carry out a decision about parked messages, and record it.
--
-- KEYS   the trigger's history (see head.lua, label.lua)
-- ARGV   token, decision (JSON), "take" (remove them), "note" (only the decision) or "add" (its outcome); then for each
--        message its id, the message in the record (JSON), its digest, or "" if no entry is settled, the outcome as in
--        settle.lua, and the digest of its uuid and id
-- Reply  a text of one character per message: 1 it was carried out, 0 it is not parked, or its entry has changed
--
-- Entries come first and parked messages last: if a crash comes between the two, the parked copy is closed later.

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries
--include shared/settling

local RECENT = 10  -- so many decisions are searched for one that was sent twice
local prefix = string.sub(KEYS[1], 1, -8)  -- without "history"
local parked, decisions = prefix .. 'parked', prefix .. 'decisions'

for _, record in ipairs(redis.call('XREVRANGE', decisions, '+', '-', 'COUNT', RECENT)) do
  local fields = record[2]
  if fields[1] == 'token' and fields[2] == ARGV[1] then return fields[8] end
end

local reply, taken, messages, members = {}, {}, {}, {}
for i = 4, #ARGV, 5 do
  local id, message, digest, ending, member = unpack(ARGV, i, i + 4)
  local done = ARGV[3] == 'add' or redis.call('HEXISTS', parked, id) == 1
  if done and digest ~= '' then
    local asked, fence, after = struct.unpack('>c1I8', ending)
    done = settle(digest, asked, fence, string.sub(ending, after)) == '1'
  end
  reply[#reply + 1] = done and '1' or '0'
  if done then
    local last = #taken + 1
    taken[last], messages[last], members[last] = id, message, member
  end
end
end_settling()

local answers = table.concat(reply)
if #taken > 0 then
  redis.call('XADD', decisions, '*', 'token', ARGV[1], 'decision', ARGV[2],
    'messages', '[' .. table.concat(messages, ',') .. ']', 'answers', answers)
  if ARGV[3] == 'take' then
    redis.call('ZREM', parked .. ':order', unpack(taken))
    redis.call('HDEL', parked .. ':labels', unpack(taken))
    redis.call('HDEL', parked .. ':copies', unpack(taken))
    redis.call('ZREM', parked .. ':uuids', unpack(members))
    redis.call('HDEL', parked, unpack(taken))
  end
end
return answers
