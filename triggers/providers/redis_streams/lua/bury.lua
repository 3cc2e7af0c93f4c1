-- Bury: take the names of dead consumers that hold nothing out of the group, where they would stand for ever.
--
-- KEYS   stream, consumer, delayed, dead letters, later (see shared/common.lua)
-- ARGV   group, name, token, claim_idle
-- Reply  how many were buried; 0 also where another consumer has looked less than claim_idle ago
--
-- In one step with the look at what they hold. One that lives nevertheless, and only had nothing to do, is made
-- again by its next read, and one that waits in a read by what that reads.

--include shared/common
--include shared/subscriptions

local consumers = string.sub(KEYS[2], 1, -#name - 1)

-- Beside the names of consumers; none of them is empty.
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
