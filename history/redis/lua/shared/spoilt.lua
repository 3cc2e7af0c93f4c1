-- Sets `record` to that of an unknown run, instead of one that is too short: data that others wrote must not keep the
-- rest from being read. It is STARTED, without a lease, and so In Doubt; somebody decides.
record = struct.pack('>I8I8I8I8', 0, now, 0, now + 604800000) .. 'unknown: the record cannot be read'
