-- Bury: remove dead consumers that hold nothing from the group, where they would stay for ever.
--
-- KEYS   stream, consumer, delayed, dead letters, later (see shared/common.lua)
-- ARGV   group, name, token, claim_idle
-- Reply  how many were buried; 0 also if another consumer has looked less than claim_idle ago
--
-- It checks in the same step that they hold nothing. If one is alive after all, and only had nothing to do, its
-- next read creates it again; if it waits in a read, the next entry does.

--include shared/common
--include shared/subscriptions

local consumers = string.sub(KEYS[2], 1, -#name - 1)

-- The key for the empty name, which no consumer has: it marks the last look.
if not redis.call('SET', consumers, '', 'NX', 'PX', claim_idle) then return 0 end

local buried = 0
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  local info = named(consumer)
  local silent = info.idle > claim_idle and redis.call('EXISTS', consumers .. info.name) == 0
  if silent and info.pending == 0 and info.name ~= WAITING and info.name ~= name then
    redis.call('XGROUP', 'DELCONSUMER', stream, group, info.name)
    buried = buried + 1
  end
end
return buried
