-- Sets `bucket` to the one that `hash` belongs to, in the slice that has `buckets` and `power`.
local bucket = hash % (power * 2)
if bucket >= buckets then bucket = hash % power end
