-- Dead letter: move entries to the dead-letter stream, field by field, and acknowledge them.
--
-- KEYS   stream, consumer, delayed, dead letters (see shared/common.lua)
-- ARGV   group, name, token, claim_idle, reason, prefix of the JMSMessageID, id ...
-- Reply  {id that is pending but cannot be copied here: gone from the stream, or too wide ...}

--include shared/common

-- How many words Lua can pass to one command, less some for the fields added here.
local WIDEST = 7000

local missing = {}
if not has_name() then return missing end

local function letter(id, fields)
  local named = false
  for i = 1, #fields, 2 do named = named or fields[i] == 'JMSMessageID' end
  local added = {'dead-letter-reason', ARGV[5], 'dead-letter-subscription', group, 'dead-letter-id', id}
  for _, word in ipairs(added) do fields[#fields + 1] = word end
  if not named then
    fields[#fields + 1], fields[#fields + 2] = 'JMSMessageID', ARGV[6] .. id
  end
  return fields
end

for i = 7, #ARGV do
  local id = ARGV[i]
  if owns(name, id) then
    local entry = redis.call('XRANGE', stream, id, id)[1]
    if entry and #entry[2] < WIDEST then
      redis.call('XADD', KEYS[4], '*', unpack(letter(id, entry[2])))
      redis.call('XACK', stream, group, id)
    else
      missing[#missing + 1] = id
    end
  end
end
return missing
