-- Stats: count what is remembered, without reading the entries.
--
-- KEYS   the trigger's history (see common.lua)
-- Reply  started, completed

local started, completed = redis.call('HLEN', KEYS[1]), 0
if started > 0 then started = started - 1 end  -- the field "meta"
for _, slice in ipairs(order) do completed = completed + slice.count - slice.removed end
local fields = redis.call('HGETALL', KEYS[1] .. ':batches')
for i = 1, #fields, 2 do
  local number = string.match(fields[i], '^c (%d+)$')
  local shown = number and show_batch(tonumber(number))
  if shown and string.sub(shown, 1, 1) == 'S' then
    started, completed = started + fields[i + 1], completed - fields[i + 1]
  end
end
return {started, math.max(0, completed)}
