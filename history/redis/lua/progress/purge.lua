-- Progress: forget the names of queries whose records have expired, some at a call.
--
-- KEYS   the trigger's history (see head.lua, progress_keep.lua)
-- ARGV   cursor, "0" at the start
-- Reply  next cursor, how many were forgotten

local progress = string.sub(KEYS[1], 1, -8) .. 'progress'  -- in the place of "history"
local page, deleted = redis.call('HSCAN', progress, ARGV[1], 'COUNT', 100), 0
for i = 1, #page[2], 2 do
  if redis.call('EXISTS', progress .. ':' .. page[2][i]) == 0 then
    deleted = deleted + redis.call('HDEL', progress, page[2][i])
  end
end
return {page[1], deleted}
