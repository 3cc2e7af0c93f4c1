-- Claims the digests in ARGV, which come after their terms; their `records` were read after `meta`. Sets `reply`, that of
-- claim.lua. If it claims something, sets `writes`, and writes `meta`.
--include shared/meta
local reply, writes, terms = {now, epoch}, nil, nil
local misses, missed = 0, {}
--include shared/live

for i = 2, #ARGV do
  local digest, record = ARGV[i], records[i]
  --include shared/look
  if not shown then
    if not writes then
      local lease, time_to_live, known, after = struct.unpack('>i8i8I8', ARGV[1])
      terms = struct.pack('>I8I8I8', now, lease < 0 and 0 or now + lease, now + time_to_live)
              .. string.sub(ARGV[1], after)
      writes = {'meta', ''}
      if known > last_fence then
        --include shared/origin
        step_over(known)
        reply[2] = -epoch
      end
    end
    last_fence = last_fence + 1
    shown = last_fence
    writes[#writes + 1], writes[#writes + 2] = digest, struct.pack('>I8', last_fence) .. terms
  end
  reply[i + 1] = shown
end

if writes then
  --include shared/there
  writes[2] = struct.pack('>BI7', LAYOUT, last_fence) .. string.sub(meta, 9)
  redis.call('HSET', KEYS[1], unpack(writes))
  if fresh then redis.call('HSET', KEYS[1] .. ':origin', 'epoch', string.format('%.0f', epoch)) end
end
