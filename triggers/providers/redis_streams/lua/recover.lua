-- Recover: give entries back, for any consumer, not before a delay. Their delivery counts stay.
--
-- KEYS   stream, consumer, delayed, dead letters (see shared/common.lua)
-- ARGV   group, name, token, claim_idle, delay (ms), id ...
-- Reply  {id that is no longer in the stream ...}

--include shared/common
if not has_name() then return gone end
local delay, mine = tonumber(ARGV[5]), {}
for i = 6, #ARGV do
  if owns(name, ARGV[i]) then mine[#mine + 1] = ARGV[i] end
end
set_owner(WAITING, delay > 0 and 0 or READY, mine)
if delay > 0 then
  local due = server_time() + delay
  for _, id in ipairs(mine) do redis.call('ZADD', KEYS[3], due, id) end
end
return gone
