-- Apply: make the changes of one step.
--
-- KEYS   the trigger's history
-- ARGV   the changes (see shared/records.lua)
-- Reply  for each change now, or a stored record (see shared/records.lua)

--include shared/records
return (apply_changes(0))
