-- Claim for a batch: as claim.lua, but the entries hold the batch's number, and its ledger record their state.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   as claim.lua, for a batch token; the digests, up to 255 of them, in one text
-- Reply  now, epoch as claim.lua, the batch's fence, a text of one byte per digest, and entries: 0 it was absent and is claimed
--        now, n the nth of the entries is there
--
-- Most rows of a batch are new, and little else is in flight. So one command writes a row if it is absent from its
-- slice; the runs in flight are read once, and what a batch shows is computed once.

--include shared/head
local meta = redis.call('HGET', KEYS[1], 'meta')
--include shared/meta
--include shared/slices
--include shared/entries

--include entries/open_batch
local digests, asked_for, claimed = ARGV[2], #ARGV[2] / 16, 0
local shows, answers, entries, places = {}, {}, {}, {}
local keys, numbers, held  -- the buckets that it claims in, and what a new entry there looks like
local sub, take, call = string.sub, struct.unpack, redis.call  -- a local is found faster
local try, locate = redis.pcall, string.find
local text = string.format  -- and this turns a whole number into text in half the time of `..`

-- Shows the content of a slice; nil when it has expired. Only an entry of a batch shows the same everywhere.
local function show(value, begins, length, step)
  local shown = shows[value]
  if shown == nil then
    --include shared/show
    if #value ~= 5 or struct.unpack('>I2', value) < BATCH then return shown end
    shows[value] = shown or false
  end
  return shown or nil
end

-- Returns the key and the number of the bucket of each digest in a slice, and checks that they exist: a write to a
-- missing one would begin it again. Digests of one bucket usually follow each other, so they share one text and one check.
local function buckets_of(name, buckets, power)
  local misses, missed, keys, numbers, prefix, last, key = 0, {}, {}, {}, KEYS[1] .. ':' .. name .. ':', nil, nil
  for i = 1, asked_for do
    local hash = take('>I4', digests, 16 * i - 15)
    --include shared/bucket
    if bucket ~= last then
      last, key, misses = bucket, prefix .. text('%d', bucket), misses + 1
      missed[misses] = key
    end
    keys[i], numbers[i] = key, bucket
  end
  --include shared/there
  return keys, numbers
end

-- Returns the content of a bucket for a digest; false or nil if it is not there.
local function read(searched, bucket, packed, short)
  --include buckets/value
  return value
end

-- Opens the slice that the batch claims in.
local function prepare()
  -- Under the number of a completed batch a new claim would be COMPLETED before its service ran.
  if batch.state ~= 'S' then batch = open_batch() end
  open_slice(batch.started, batch.expires - batch.started)
  keys, numbers = buckets_of(name, buckets, power)
  held = struct.pack('>I2I3', BATCH + math.floor(batch.fence / FENCES) % UNITS, batch.fence % FENCES)
end

-- Lists the slices except the open one.
local function list_others()
  local others, place, other = {}, SLICES, nil
  while place < #meta do
    other = {struct.unpack(SLICE, meta, place)}
    place = other[10]
    if other[1] ~= name and other[2] + 3 * other[3] > now then
      other.keys, other.numbers = buckets_of(other[1], other[5], other[6])
      others[#others + 1] = other
    end
  end
  return #others > 0 and others
end

-- Reads the runs in flight among the digests; false when there are no runs at all.
local function read_in_flight()
  if redis.call('HLEN', KEYS[1]) <= 1 then return false end
  local asked = {}
  for i = 1, asked_for do asked[i] = string.sub(digests, 16 * i - 15, 16 * i) end
  return redis.call('HMGET', KEYS[1], unpack(asked))
end

if batch.state == 'S' then prepare() end
local others, in_flight = list_others(), read_in_flight()

local function look_in_others(short, i)
  for _, other in ipairs(others) do
    local found = read(other.keys[i], other.numbers[i], other[7], short)
    local shown = found and show(found, other[2], other[3], other[4])
    if shown then return shown end
  end
end

local function look_in_flight(record)
  local shown
  --include shared/flight
  return shown
end

for i = 1, asked_for do
  local short = sub(digests, 16 * i - 15, 16 * i - 16 + SHORT)
  local shown = others and look_in_others(short, i) or in_flight and look_in_flight(in_flight[i])
  if not shown then
    if not keys then prepare() end
    if numbers[i] >= packed and try('HSETNX', keys[i], short, held) == 1 then
      if take('>I4', short) >= SAMPLED then count = count + SAMPLE end
    else
      local value = read(keys[i], numbers[i], packed, short)
      shown = value and show(value, begins, length, step)
      if not shown then insert(short, batch.started, 'B', batch.fence) end
    end
  end
  if not shown then
    claimed, answers[i] = claimed + 1, '\0'
  else
    if not places[shown] then
      entries[#entries + 1] = shown
      places[shown] = string.char(#entries)
    end
    answers[i] = places[shown]
  end
end

if claimed > 0 then
  redis.call('HINCRBY', ledger, field('c', batch.fence), claimed)
  split()
end
if keys then save() end
return {now, known_epoch, batch.fence, table.concat(answers), unpack(entries)}
