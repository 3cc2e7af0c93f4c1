-- Buckets in either form, for rare changes: a hash, or packed, a string.

local MOST_WORDS = 4000  -- of one command: Lua cannot pass 8,000

local function is_packed(key)
  local form = redis.call('TYPE', key).ok
  if form ~= 'string' and form ~= 'hash' and form ~= 'none' then error('BROKEN ' .. key, 0) end
  return form == 'string'
end

-- Lists short digest, value, ... of a bucket, and tells whether the bucket is whole; a missing bucket is not. Fields of
-- another length were written by others, and nothing looks for them.
local function content_of(key)
  local content, last, whole = {}, 0, false
  if not is_packed(key) then
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      whole = whole or fields[i] == ''
      if #fields[i] == SHORT then
        content[last + 1], content[last + 2] = fields[i], fields[i + 1]
        last = last + 2
      end
    end
    return content, whole
  end
  local text = redis.call('GET', key)
  local count = #text >= TAGS and struct.unpack('>I3', text) or #text
  if #text ~= TAGS + count * (1 + REST) then error('BROKEN ' .. key, 0) end
  for i = 1, count do
    local begin = TAGS + count + REST * (i - 1) + 1
    content[#content + 1] = string.sub(text, begin, begin + SHORT - 2) .. string.sub(text, TAGS + i, TAGS + i)
    content[#content + 1] = string.sub(text, begin + SHORT - 1, begin + REST - 1)
  end
  return content, true
end

-- Counts the entries of a bucket, without reading them.
local function count_of(key)
  if not is_packed(key) then return redis.call('HLEN', key) - 1 end
  local head = redis.call('GETRANGE', key, 0, TAGS - 1)
  local count = #head == TAGS and struct.unpack('>I3', head)
  if not count or redis.call('STRLEN', key) ~= TAGS + count * (1 + REST) then error('BROKEN ' .. key, 0) end
  return count
end

-- Writes a packed bucket, which still expires as before; `content` is short digest, value, ...
local function write_packed(key, content)
  local tags, entries, sub, count = {}, {}, string.sub, 0
  for i = 1, #content, 2 do
    count = count + 1
    tags[count], entries[count] = sub(content[i], SHORT), sub(content[i], 1, SHORT - 1) .. content[i + 1]
  end
  local text = struct.pack('>I3', count) .. table.concat(tags) .. table.concat(entries)
  redis.call('SET', key, text, 'KEEPTTL')
end

-- Removes entries from a bucket; returns how many were there.
local function delete_from(key, shorts)
  if not is_packed(key) then
    local deleted = 0
    for i = 1, #shorts, MOST_WORDS do
      deleted = deleted + redis.call('HDEL', key, unpack(shorts, i, math.min(i + MOST_WORDS - 1, #shorts)))
    end
    return deleted
  end
  local gone, kept, content = {}, {}, content_of(key)
  for _, short in ipairs(shorts) do gone[short] = true end
  for i = 1, #content, 2 do
    if not gone[content[i]] then kept[#kept + 1], kept[#kept + 2] = content[i], content[i + 1] end
  end
  if #kept < #content then write_packed(key, kept) end
  return (#content - #kept) / 2
end

-- Writes entries to a bucket that exists; returns how many were absent. `content` is short digest, value, ...
local function insert_into(key, content)
  local added = 0
  if not is_packed(key) then
    for i = 1, #content, MOST_WORDS do
      added = added + redis.call('HSET', key, unpack(content, i, math.min(i + MOST_WORDS - 1, #content)))
    end
    return added
  end
  local all, places = content_of(key), {}
  for i = 1, #all, 2 do places[all[i]] = i end
  for i = 1, #content, 2 do
    local place = places[content[i]]
    if not place then place, added = #all + 1, added + 1 end
    all[place], all[place + 1] = content[i], content[i + 1]
  end
  write_packed(key, all)
  return added
end
