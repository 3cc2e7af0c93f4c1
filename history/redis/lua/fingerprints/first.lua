-- Fingerprints: keep that of the first body of a uuid, and return the one that is kept.
--
-- KEYS   doubtless:{<trigger>}:fingerprint:<digest>: eight bytes
-- ARGV   fingerprint, time to live in milliseconds
-- Reply  the fingerprint that is kept

local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
  return held
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
