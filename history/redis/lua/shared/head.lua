-- The beginning of every script of the document history: what is stored where, constants, and the time.
--
-- Keys; all begin with KEYS[1], whose hash tag {trigger} keeps them in one slot:
--   KEYS[1]                      HASH  digest -> record of a run in flight; there are few
--                                      "meta" -> last fence, epoch of this data set (its first fence); slices of time
--   <KEYS[1]>:batches            HASH  "o <token>" -> number, "c <number>" -> entries held,
--                                      "b <number>" -> state S, O, F or R(eleased), record; its fence is the number
--   <KEYS[1]>:<slice>:<bucket>   HASH  digest -> 5 bytes: 2 bits kind, 14 bits start time, 24 bits fence;
--                                      for an entry of a batch 2 bits kind, 38 bits number;
--                                      "" -> "", by which a bucket that is gone is told from an empty one
--   <KEYS[1]>:origin             HASH  where all this comes from, see origin.lua
--
-- A record is 4 x 8 bytes, fence, started, lease, expires, and then the owner. Instants are milliseconds since
-- 1970 on this server; a lease of 0 means none. An entry is shown as its state S, O or F, "B" for a batch's or
-- "-", and a record.
--
-- Completed entries are compact: a slice of time is a linear hash table of small hashes, which Redis keeps as
-- listpacks of under 30 bytes an entry. While it grows from 2^n = power to 2^(n+1) buckets, those below the split
-- point are halved already. A slice is half the time to live long, so at most three are looked at, and each bucket
-- expires by itself when the last entry of its slice has.
--
-- A key that must be there and is not (evicted, deleted by hand, on its way to another server) is an error, LOST and
-- the key, and never "absent": what stood there would be NEW and run again. And Redis does not undo a script that
-- fails half way, so each writes first, and deletes what that replaces last: what is left then is there twice, and
-- the entry in a bucket counts. A field "meta" that nobody here wrote is an error, too, SPOILT and the key: without it
-- no entry is found. What of it these scripts do not notice, and fail of, history/redis/spoilt.py finds out.
--
-- These scripts run with every message. So files are included rather than called: a function costs as much as a
-- lookup before it does anything, and so does a number that is turned into text. No digest stands twice in one
-- call, to which the caller sees.

local LOAD = 64          -- entries per bucket on average; hardly ever more than 200 in one
local SAMPLE = 16        -- one entry in so many is counted, for all of them: counting each would be one more write
local SAMPLED = 4294967296 - 4294967296 / SAMPLE  -- the first 4 bytes of such a digest, or more
local UNITS = 16384      -- steps of a slice in which a start time is kept
local FENCES = 16777216  -- a completed entry keeps the low 24 bits of its fence, the rest is guessed
local OK, FAILED, BATCH = 0, 16384, 32768  -- the kind of an entry, in the bits above the start time

-- Name (zero-terminated), begin, length, step of a start time, buckets, power, entries by estimate, and those that
-- were held by a batch which was released.
local SLICE = '>sI6I6I6I4I4I6I6'
local RECORD = 32        -- bytes of a record, without the owner
local SLICES = 17        -- where the slices begin in meta

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
