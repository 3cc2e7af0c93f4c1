-- Settle: complete or release claims that still have their fence.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   as settle.lua
-- Reply  a text of one character per digest: 1 it is now as asked (also when it was before), 0 the fence is stale or
--        another's

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries
--include shared/settling

local reply, asked_for = {}, #ARGV / 2

for i = 1, asked_for do
  local asked, fence, after = struct.unpack('>c1I8', ARGV[i])
  reply[i] = settle(ARGV[asked_for + i], asked, fence, string.sub(ARGV[i], after))
end
end_settling()
return table.concat(reply)
