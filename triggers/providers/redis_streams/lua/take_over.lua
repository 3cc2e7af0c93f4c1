-- Take over: let all that others have not settled, or that waits for its delay, be reclaimed immediately.
--
-- KEYS   stream, consumer, delayed, dead letters (see shared/common.lua)
-- ARGV   group, name, token, claim_idle, the first id to check: "-", or "(" and the last one checked
-- Reply  {where to continue, in the form of the last argument, or "" at the end, {id that is no longer in the
--        stream ...}}; nil when another consumer has the name

--include shared/common

-- How many pending entries one call checks.
local SCAN = 1000

if not keep_name() then return false end
local others, last = {}, nil
for _, row in ipairs(redis.call('XPENDING', stream, group, ARGV[5], '+', SCAN)) do
  last = row[1]
  if row[2] ~= name then others[#others + 1] = row[1] end
end
set_owner(WAITING, READY, others)
if #others > 0 then redis.call('ZREM', KEYS[3], unpack(others)) end
return {last and '(' .. last or '', gone}
