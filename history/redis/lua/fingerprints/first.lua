-- Fingerprints: keep that of the first body of each uuid, and return those that are kept, in order.
--
-- KEYS   doubtless:{<trigger>}:fingerprint:<digest>, one for each: eight bytes
-- ARGV   time to live in milliseconds, then a fingerprint for each key
-- Reply  the fingerprints that are kept

local time_to_live, kept = ARGV[1], {}
for index, key in ipairs(KEYS) do
  local mine = ARGV[index + 1]
  local held = redis.call('GET', key)
  if held and held ~= mine then
    kept[index] = held
  else
    -- Never for a shorter time than before.
    if redis.call('PTTL', key) < tonumber(time_to_live) then
      redis.call('SET', key, mine, 'PX', time_to_live)
    end
    kept[index] = mine
  end
end
return kept
