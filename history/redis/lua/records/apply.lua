-- Apply: make the changes of one step.
--
-- KEYS   the trigger's history
-- ARGV   the changes (see shared/records.lua)
-- Reply  for each change 1, or the stored record instead, "" if there is none

--include shared/records
return (apply_changes(0))
