-- Keeps the record of a batch, if it follows the one that is held.
--
--   ...:progress          HASH  query -> the batch that changed last
--   ...:progress:<query>  HASH  batch -> revision, a space, and the record (JSON)
-- ARGV, after `before` others: query, batch, revision, record, batch to forget, milliseconds for which the query is
-- remembered

local function keep_record(before)
  local query, batch, revision, record, forgotten, remembered = unpack(ARGV, before + 1, before + 6)
  local progress = string.sub(KEYS[1], 1, -8) .. 'progress'  -- in the place of "history"
  local key, text = progress .. ':' .. query, revision .. ' ' .. record
  local held = redis.call('HGET', key, batch)
  if held == text then return true end
  local last = held and tonumber(string.match(held, '^%d+')) or 0
  if tonumber(revision) ~= last + 1 then return false end
  redis.call('HSET', key, batch, text)
  redis.call('HDEL', key, forgotten)
  local kept, latest = batch - forgotten, redis.call('HGET', progress, query)
  if latest and latest - batch > 0 then
    -- The checkpoint was reset: it will be long until these numbers are reached again.
    for _, other in ipairs(redis.call('HKEYS', key)) do
      if other - batch > kept then redis.call('HDEL', key, other) end
    end
  end
  redis.call('HSET', progress, query, batch)
  redis.call('PEXPIRE', key, remembered)
  redis.call('PEXPIRE', progress, remembered)
  return true
end
