-- Step: before the first fence is granted on a server, step over all fences that another server may have granted; the
-- data loaded here may be older, see origin.lua.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   run id of the server
-- Reply  the field `loaded`: the run id of the last server that stepped, its last fence before the step, and after it,
--        with spaces between; empty if none has stepped. A client with a fence between the two has lost data

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/origin
local before = redis.call('HGET', origin, 'server')
local steps = not fresh and before and before ~= ARGV[1]
local loaded = redis.call('HGET', origin, 'loaded') or ''
if steps then
  local was = last_fence
  step_over(0)
  save()
  loaded = string.format('%s %.0f %.0f', ARGV[1], was, last_fence)
  redis.call('HSET', origin, 'loaded', loaded)
end
if not fresh then redis.call('HSET', origin, 'epoch', string.format('%.0f', epoch)) end
if before ~= ARGV[1] then redis.call('HSET', origin, 'server', ARGV[1]) end
return loaded
