-- Progress: read records of batches.
--
-- KEYS   the trigger's history (see head.lua, progress_keep.lua)
-- ARGV   query, or nothing for the last one of each query; batch, or nothing for all of the query's
-- Reply  records (JSON)

local progress = string.sub(KEYS[1], 1, -8) .. 'progress'  -- in the place of "history"

local function record(key, batch)
  local held = redis.call('HGET', key, batch)
  return held and string.sub(held, string.find(held, ' ', 1, true) + 1)
end

local reply = {}
if #ARGV == 2 then
  reply[1] = record(progress .. ':' .. ARGV[1], ARGV[2]) or nil
elseif #ARGV == 1 then
  local key = progress .. ':' .. ARGV[1]
  for _, batch in ipairs(redis.call('HKEYS', key)) do reply[#reply + 1] = record(key, batch) end
else
  local queries = redis.call('HGETALL', progress)
  for i = 1, #queries, 2 do
    reply[#reply + 1] = record(progress .. ':' .. queries[i], queries[i + 1]) or nil
  end
end
return reply
