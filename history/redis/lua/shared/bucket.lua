-- Sets `bucket` to the bucket of `hash`, in the slice with `buckets` and `power`.
local bucket = hash % (power * 2)
if bucket >= buckets then bucket = hash % power end
