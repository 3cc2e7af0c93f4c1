-- For scripts that read all subscriptions of a stream. Included after shared/common.

local function named(reply)
  local info = {}
  for i = 1, #reply, 2 do info[reply[i]] = reply[i + 1] end
  return info
end

-- How many running consumers it has. The key of a consumer's name is the one in settings.py.
local function living_consumers(subscription)
  local own = string.gsub(string.gsub(group, '%%', '%%25'), ':', '%%3A')
  local its = string.gsub(string.gsub(subscription, '%%', '%%25'), ':', '%%3A')
  local before, living = string.sub(KEYS[2], 1, -#own - #name - 2), 0
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, subscription)) do
    living = living + redis.call('EXISTS', before .. its .. ':' .. named(consumer).name)
  end
  return living
end
