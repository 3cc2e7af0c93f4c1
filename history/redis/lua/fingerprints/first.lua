-- Fingerprints: keep that of the first body of a uuid, and return the one that is kept.
--
-- KEYS   doubtless:{<trigger>}:fingerprint:<digest>: eight bytes
-- ARGV   fingerprint, time to live in milliseconds
-- Reply  the fingerprint that is kept

local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
  return held
end
-- Never for a shorter time than before.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return ARGV[1]
