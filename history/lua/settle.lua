-- Settle: complete or release the runs in flight whose fence still stands.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   what is asked: "O" completed ok | "F" completed failed | "R" released, and the fence, packed ...;
--        as many digests
-- Reply  one per digest: 1 it is now as asked, 0 the fence is stale, -1 no run in flight: settle_rest.lua knows more

--include head
local asked_for = #ARGV / 2
local records = redis.call('HMGET', KEYS[1], 'meta', unpack(ARGV, asked_for + 1))
local meta = records[1]
--include meta
--include slices
local reply, gone = {}, {}

for i = 1, asked_for do
  local asked, fence = struct.unpack('>c1I8', ARGV[i])
  local digest, record, held, started, expires = ARGV[asked_for + i], records[i + 1], nil, nil, 0
  if record then held, started, _, expires = struct.unpack('>I8I8I8I8', record) end
  if expires <= now then
    reply[i] = -1
  elseif held ~= fence then
    reply[i] = 0
  else
    reply[i] = 1
    gone[#gone + 1] = digest
    if asked ~= 'R' then
      open_slice(started, expires - started)
      insert(digest, started, asked == 'O' and OK or FAILED, fence)
    end
  end
end

if #gone > 0 then
  redis.call('HDEL', KEYS[1], unpack(gone))
  if name then
    pack_meta()
    redis.call('HSET', KEYS[1], 'meta', meta)
  end
end
return reply
