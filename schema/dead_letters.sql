-- Accepted entries that could not be stored as events in any form, with the reason.
CREATE TABLE IF NOT EXISTS dead_letters
(
    project_id  LowCardinality(String),
    position    UInt64,
    kind        LowCardinality(String),
    reason      String,
    body        String CODEC(ZSTD(1)),
    received_at Int64,
    -- of the journal that assigned the position; a replay makes the ids of the events from both
    journal_id  UInt32,
    -- Erasing a user from a dead letter inserts it again with a higher revision, which replaces the earlier one. That row is
    -- then deleted by its numbers: a mutation with the new body would quote others' data in its file.
    revision    UInt64,
    -- the events in it, without those of erased users
    event_count UInt32
)
ENGINE = MergeTree
ORDER BY (project_id, position)
SETTINGS non_replicated_deduplication_window = 20000, fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, finished_mutations_to_keep = 1, remove_empty_parts = 0;

-- The dead letters that were replayed. They stay in dead_letters as a record.
CREATE TABLE IF NOT EXISTS dead_letter_replays
(
    journal_id  UInt32,
    position    UInt64,
    replayed_at Int64
)
ENGINE = ReplacingMergeTree
ORDER BY (journal_id, position)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
