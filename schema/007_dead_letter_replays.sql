-- The journal's number is part of the ids that a replay gives to the events; 0 is a letter from before this column.
ALTER TABLE dead_letters ADD COLUMN IF NOT EXISTS journal_id UInt32 DEFAULT 0;

-- The letters that were replayed; they stay in dead_letters, as what has happened.
CREATE TABLE IF NOT EXISTS dead_letter_replays
(
    journal_id  UInt32,
    position    UInt64,
    replayed_at Int64
)
ENGINE = ReplacingMergeTree
ORDER BY (journal_id, position)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
