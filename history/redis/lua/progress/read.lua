-- Progress: read records of batches.
--
-- KEYS   the trigger's history (see head.lua, progress_keep.lua)
-- ARGV   "one", query, batch | "some", query, at most how many | "latest", Redis's cursor, "0" at the start
-- Reply  records (JSON): the one, or those of the greatest batches; the latest, before them the next cursor,
--        "0" at the end: of some queries the record of the batch that changed last

local progress = string.sub(KEYS[1], 1, -8) .. 'progress'  -- in the place of "history"

local function record(key, batch)
  local held = redis.call('HGET', key, batch)
  return held and string.sub(held, string.find(held, ' ', 1, true) + 1)
end

local reply = {}
if ARGV[1] == 'one' then
  reply[1] = record(progress .. ':' .. ARGV[2], ARGV[3]) or nil
elseif ARGV[1] == 'some' then
  -- A query has about a thousand: with each new one the oldest is forgotten.
  local key = progress .. ':' .. ARGV[2]
  local batches = redis.call('HKEYS', key)
  table.sort(batches, function(a, b) return tonumber(a) > tonumber(b) end)
  for i = 1, math.min(#batches, ARGV[3]) do reply[i] = record(key, batches[i]) end
else
  local page = redis.call('HSCAN', progress, ARGV[2], 'COUNT', 200)
  reply[1] = page[1]
  for i = 1, #page[2], 2 do
    reply[#reply + 1] = record(progress .. ':' .. page[2][i], page[2][i + 1]) or nil
  end
end
return reply
