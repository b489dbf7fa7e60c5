-- A letter from which a user is erased is inserted anew under a higher revision, the highest of which counts, and the
-- earlier one is deleted by its numbers: a mutation that said the new body would quote others' data in its file.
ALTER TABLE dead_letters ADD COLUMN IF NOT EXISTS revision UInt64 DEFAULT 0;

-- Mutations of earlier versions did quote it. This one, which changes nothing, takes the place of the last of them.
ALTER TABLE dead_letters MODIFY SETTING finished_mutations_to_keep = 1;
ALTER TABLE dead_letters DELETE WHERE 0;
