-- For scripts that move due messages into the stream, where any subscription may read them. Included after
-- shared/common.

-- No pause is longer than a day, in ms: a member of another program may never be due.
local LONGEST = 86400000

-- See codec.py of the package for a member's form. An invalid member, or one with more words than XADD can take,
-- goes into the stream as it is: its receiver parks it, and nothing waits for it.
local function unpacked(member)
  local words, at = {}, 21
  while at <= #member do
    words[#words + 1], at = struct.unpack('>I4c0', member, at)
  end
  return words
end

local function add_unpacked(member)
  local words = unpacked(member)
  redis.call('XADD', stream, '*', unpack(words))
end

local function deliver_later_ones(limit)
  set_aside_unless(KEYS[5], 'zset')
  local now = server_time()
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'LIMIT', 0, limit)) do
    if not pcall(add_unpacked, member) then redis.call('XADD', stream, '*', 'undecodable', member) end
    redis.call('ZREM', KEYS[5], member)
  end
  local next_one = redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
  return next_one and math.max(0, math.ceil(math.min(LONGEST, tonumber(next_one) - now))) or -1
end
