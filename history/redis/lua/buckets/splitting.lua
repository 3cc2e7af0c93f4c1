-- Adds the buckets that are needed for the number of entries, after `meta` is written; for the scripts of the usual
-- messages, in which the functions below would cost more than all else. If it fails, the next call tries it again.
pcall(function()
  local meta = redis.call('HGET', KEYS[1], 'meta')
  --include shared/meta
  --include shared/slices

  open(function()
    split()
    close_slice()
    return false
  end)
  save()
end)
