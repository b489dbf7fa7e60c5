-- Which parts each table had when the service looked last, with their rows, also by project: a part that is neither there
-- nor merged into another one is lost. One row for each partition of a table, of which the newest counts.
CREATE TABLE IF NOT EXISTS known_parts
(
    table_name   LowCardinality(String),
    -- of the table, which is another one after a RESTORE, with parts of other names; zero where there are replicas
    table_uuid   UUID,
    partition_id String,
    parts        Array(Tuple(name String, first Int64, last Int64, rows UInt64, projects Map(String, UInt64))) CODEC(ZSTD(1)),
    version      UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (table_name, partition_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- Parts that were found to be lost, until they are settled: the part is there again, or an operator has seen to it. What
-- ClickHouse has put aside, but has in another part too, is settled from the beginning.
CREATE TABLE IF NOT EXISTS lost_parts
(
    table_name   LowCardinality(String),
    part         String,
    partition_id String,
    state        LowCardinality(String),
    reason       LowCardinality(String),
    rows         Nullable(UInt64),
    projects     Map(String, UInt64),
    is_settled   UInt8,
    version      UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (table_name, part)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- A part whose rows are all deleted stays, empty, as the sign that nothing of it is lost.
ALTER TABLE events MODIFY SETTING remove_empty_parts = 0;
ALTER TABLE profiles MODIFY SETTING remove_empty_parts = 0;
ALTER TABLE sessions MODIFY SETTING remove_empty_parts = 0;
ALTER TABLE aliases MODIFY SETTING remove_empty_parts = 0;
ALTER TABLE dead_letters MODIFY SETTING remove_empty_parts = 0;
ALTER TABLE saved MODIFY SETTING remove_empty_parts = 0;
ALTER TABLE api_keys MODIFY SETTING remove_empty_parts = 0;

-- The ledger of each project: what the journals have acknowledged is stored, refused or deleted. Here is what was deleted,
-- counted by each process before it deletes; the greatest count of a process counts.
CREATE TABLE IF NOT EXISTS deleted_events
(
    project_id LowCardinality(String),
    process    UUID,
    count      UInt64
)
ENGINE = ReplacingMergeTree(count)
ORDER BY (project_id, process)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- What the journals of a layout do not count, as it was acknowledged by others, imported, restored or given up; or, below
-- zero, what they count and is not there. Since when, by the clock of who noted it.
CREATE TABLE IF NOT EXISTS ledger_bases
(
    layout     UInt32,
    project_id LowCardinality(String),
    carried    Int64,
    since      Int64,
    version    UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (layout, project_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- The events in a letter, without those of erased users.
ALTER TABLE dead_letters ADD COLUMN IF NOT EXISTS event_count UInt32 DEFAULT 0;
