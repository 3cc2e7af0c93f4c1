-- Progress: keep the record of a batch, if it follows the one that is held.
--
-- KEYS   the trigger's history (see head.lua)
-- ARGV   the record (see progress_keep.lua)
-- Reply  1 it is held now, 0 it does not follow

--include progress/keep
return keep_record(0) and 1 or 0
