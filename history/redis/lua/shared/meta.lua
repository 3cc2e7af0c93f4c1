-- Reads the parts of `meta`, as stored or false; `fresh` means that there was none.
local last_fence, epoch
local fresh = not meta
if meta then
  if #meta < SLICES - 1 then error('SPOILT ' .. KEYS[1], 0) end
  local layout
  layout, last_fence, epoch = struct.unpack(META, meta)
  -- Above this, Lua cannot distinguish numbers, and fences do not grow; any text counts as above.
  if layout ~= LAYOUT or last_fence >= 9007199254740992 then error('SPOILT ' .. KEYS[1], 0) end
else
  if redis.call('HEXISTS', KEYS[1] .. ':origin', 'epoch') == 1 then error('LOST ' .. KEYS[1], 0) end
  -- Fences begin at the microseconds since 1970, so that they still grow after a flush.
  last_fence = clock[1] * 1000000 + clock[2]
  epoch = last_fence
  meta = struct.pack(META, LAYOUT, last_fence, epoch)
end
