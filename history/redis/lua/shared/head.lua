-- The beginning of every script of the document history: what is stored where, constants, and the time.
--
-- Keys; all begin with KEYS[1], and its hash tag {trigger} keeps them in one slot:
--   KEYS[1]                      HASH  digest -> record of a run in flight; there are few
--                                      "meta" -> layout, last fence, epoch of this data set (its first fence); slices
--   <KEYS[1]>:batches            HASH  "o <token>" -> number, "c <number>" -> entries held,
--                                      "b <number>" -> state S, O, F or R(eleased), record; its fence is the number
--   <KEYS[1]>:<slice>:<bucket>   HASH  short digest -> 5 bytes: 2 bits kind, 14 bits start time, 24 bits fence;
--                                      for an entry of a batch 2 bits kind, 38 bits number;
--                                      "" -> "", so that a missing bucket differs from an empty one
--                               STRING a packed bucket: 3 bytes number of entries; the tag of each, which is the last byte
--                                      of its short digest; then for each the rest of that digest, and the 5 bytes
--   <KEYS[1]>:origin             HASH  the origin of these data, see origin.lua
--
-- A record is 4 x 8 bytes, fence, started, lease, expires, and then the owner. Instants are milliseconds since
-- 1970 on this server; a lease of 0 means none. An entry is shown as its state S, O or F, "B" for a batch's or
-- "-", and a record.
--
-- Completed entries are compact: a slice of time is a linear hash table of small hashes, which Redis keeps as listpacks
-- of about 24 bytes an entry. After a slice has ended, pack.lua makes its buckets strings, of about 20 bytes an entry.
-- The slice counts its `packed` buckets, the first ones. A bucket of another form than this count says is read as well
-- (see value.lua). While a slice grows from 2^n = power to 2^(n+1) buckets, the buckets below the split point are halved
-- already. A slice is half the time to live long, so at most three are read, and each bucket expires by itself when the
-- last entry of its slice has.
--
-- If a required key is missing (evicted, deleted by hand, in transit to another server), the script fails with LOST and
-- the key, and never answers "absent": its entries would be NEW and run again. Redis does not undo a script that fails
-- half way. So each script writes first, and deletes the replaced data last: after a failure an entry may be there
-- twice; then the one in a bucket counts. If the part of a packed bucket that is read is not complete, the script fails
-- with BROKEN and the key. A field "meta" that these scripts did not write is an error as well, SPOILT and the key.
-- history/redis/spoilt.py finds such a field if a script fails on it without noticing.
--
-- These scripts run with every message. So files are included rather than called: a function costs as much as a lookup
-- before it does anything, and so does turning a number into text. No digest occurs twice in one call; the caller
-- ensures that.

local LAYOUT = 1         -- of all this; the first byte of meta. A version with another layout refuses these data
local SHORT = 10         -- bytes of a digest that a completed entry keeps
local TAGS = 3           -- bytes before the tags of a packed bucket
local REST = SHORT + 4   -- bytes of an entry of it, without its tag
local HEAD = '127'       -- the last byte that is read first: most buckets do not have more tags
local LOAD = 64          -- entries per bucket on average; hardly ever more than 200 in one
local SAMPLE = 16        -- one entry in so many is counted, for all: counting each would cost one more write
local SAMPLED = 4294967296 - 4294967296 / SAMPLE  -- the first 4 bytes of such a digest, or more
local UNITS = 16384      -- steps of a slice in which a start time is kept
local FENCES = 16777216  -- a completed entry keeps the low 24 bits of its fence, the rest is a guess
local OK, FAILED, BATCH, UNREADABLE = 0, 16384, 32768, 49152  -- the kind of an entry, in the bits above the start time

-- Name (zero-terminated), begin, length, step of a start time, buckets, power, how many buckets are packed (the first
-- ones), estimated number of entries, and entries of released batches.
local SLICE = '>sI6I6I6I4I4I4I6I6'
local META = '>BI7I8'    -- layout, last fence, epoch: what meta begins with
local RECORD = 32        -- bytes of a record, without the owner
local SLICES = 17        -- where the slices begin in meta

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
