-- Keep: hold periods for longer if the owner still holds them; 0 gives them back.
--
-- KEYS   the trigger's history (see shared/head.lua, joining/head.lua)
-- ARGV   owner, hold (ms), number ...
-- Reply  1

--include shared/head
--include joining/head
for i = 3, #ARGV do
  local held = redis.call('HMGET', joins .. ':' .. ARGV[i], 'owner', 'state')
  if held[1] == ARGV[1] and held[2] ~= 'open' then redis.call('ZADD', due, 'XX', now + ARGV[2], ARGV[i]) end
end
return 1
