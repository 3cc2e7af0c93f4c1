-- Fails if one of the `misses` keys in `missed` is not there. One command asks for all of them, which costs a tenth of
-- what it would cost to have each answer for itself.
if misses > 0 and redis.call('EXISTS', unpack(missed, 1, misses)) < misses then
  for i = 1, misses do
    if redis.call('EXISTS', missed[i]) == 0 then error('LOST ' .. missed[i], 0) end
  end
end
