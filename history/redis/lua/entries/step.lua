-- Step: before the first fence is granted on a server, step over all fences that another server may have granted; the
-- data loaded here may be older, see origin.lua.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   run id of the server
-- Reply  1 stepped, 0 fences have been granted here already, or nothing is known of another server

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/origin
local before = redis.call('HGET', origin, 'server')
local steps = not fresh and before and before ~= ARGV[1]
if steps then
  step_over(0)
  save()
end
if not fresh then redis.call('HSET', origin, 'epoch', string.format('%.0f', epoch)) end
if before ~= ARGV[1] then redis.call('HSET', origin, 'server', ARGV[1]) end
return steps and 1 or 0
