-- For scripts that move messages whose delivery time has come into the stream, where any subscription may read
-- them. Included after shared/common.

-- See later.py of the package for a member's form. What is none goes into the stream as it is: its receiver parks it.
local function unpacked(member)
  local words, at = {}, 21
  while at <= #member do
    words[#words + 1], at = struct.unpack('>I4c0', member, at)
  end
  return words
end

local function deliver_later_ones(limit)
  local now = server_time()
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'LIMIT', 0, limit)) do
    local whole, words = pcall(unpacked, member)
    if not whole or #words == 0 or #words % 2 == 1 then words = {'undecodable', member} end
    redis.call('XADD', stream, '*', unpack(words))
    redis.call('ZREM', KEYS[5], member)
  end
  local next_one = redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
  return next_one and math.max(0, math.ceil(tonumber(next_one) - now)) or -1
end
