-- Steps: how far a reader without a subscription gets. The entries themselves are not sent.
--
-- KEYS   stream, consumer, delayed, dead letters, later (see shared/common.lua; those of a consumer are not touched)
-- ARGV   group, name, token, claim_idle (not used), id to start after, last id or "+", how many entries
-- Reply  entries in the stream, entries ever added (-1 if Redis is older than 7.0), id generated last, first id
--        in the stream or "", entries stepped over, id of the last of these; nil without a stream

--include shared/common
--include shared/later
deliver_later_ones(1000)
if redis.call('EXISTS', stream) == 0 then return false end
local info, reply = {}, redis.call('XINFO', 'STREAM', stream)
for i = 1, #reply, 2 do info[reply[i]] = reply[i + 1] end
local first, step = info['first-entry'], redis.call('XRANGE', stream, '(' .. ARGV[5], ARGV[6], 'COUNT', ARGV[7])
return {
  info.length, info['entries-added'] or -1, info['last-generated-id'], first and first[1] or '',
  #step, #step > 0 and step[#step][1] or ARGV[5],
}
