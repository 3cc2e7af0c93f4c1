-- Sets `value` to the 5 bytes of the entry `short` in the bucket `searched`, which has the number `bucket` in a slice
-- with `packed` packed buckets. It is false or nil if the entry is absent; then the bucket exists if `exists` is true,
-- and otherwise there.lua must check it.
--
-- Each byte that Lua receives costs time. So this reads the tags of a packed bucket, and then only entries with the tag.
local value, head, exists = nil, nil, false
if bucket < packed then head = try('GETRANGE', searched, '0', HEAD) else value = try('HGET', searched, short) end
if type(head or value) == 'table' then
  if not locate((head or value).err, 'WRONGTYPE', 1, true) then
    if head then call('GETRANGE', searched, '0', HEAD) else call('HGET', searched, short) end  -- fails again, as it is
  end
  -- The other form: the bucket is too large to be packed, the field "meta" is from a snapshot, or an operator who accepts
  -- a loss has begun a hash.
  if head then
    head, value = nil, try('HGET', searched, short)
  else
    head, value = try('GETRANGE', searched, '0', HEAD), nil
  end
  if type(head or value) == 'table' or not head and call('HEXISTS', searched, '') == 0 then
    error('BROKEN ' .. searched, 0)
  end
end
if head == '' and call('EXISTS', searched) == 0 then head = nil end
if head then
  local count = #head >= TAGS and take('>I3', head) or #head
  if count + TAGS > #head then head = call('GETRANGE', searched, '0', text('%d', count + TAGS - 1)) end
  if count + TAGS > #head then error('BROKEN ' .. searched, 0) end
  local tag, entry = sub(short, SHORT), nil
  local at = locate(head, tag, TAGS + 1, true)
  while at and at <= count + TAGS do
    local begin = count + TAGS + REST * (at - TAGS - 1)
    entry = call('GETRANGE', searched, text('%d', begin), text('%d', begin + REST - 1))
    if #entry < REST then error('BROKEN ' .. searched, 0) end
    if sub(entry, 1, SHORT - 1) == sub(short, 1, SHORT - 1) then
      value = sub(entry, SHORT)
      break
    end
    at = locate(head, tag, at + 1, true)
  end
  exists = true
end
