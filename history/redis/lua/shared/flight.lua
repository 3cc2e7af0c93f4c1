-- Sets `shown` to the run in flight of `record`; leaves it nil when there is none, or when it has expired.
if record and #record < RECORD then
  --include shared/spoilt
end
if record and struct.unpack('>I8', record, 25) > now then shown = 'S-' .. record end
