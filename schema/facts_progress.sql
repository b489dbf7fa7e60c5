-- The progress of a shard's facts. One process leads: it copies and follows changes. `epoch` counts leaders; every
-- statement on facts names the epoch that it belongs to, and does nothing in a later one. `begun` is the last step of
-- copying that began. A new `generation` voids all facts. `engine` is the version of ClickHouse that wrote them.
CREATE TABLE IF NOT EXISTS facts_state
(
    version    UInt64,
    epoch      UInt32,
    leader     UUID,
    is_leading UInt8,
    begun      UInt32,
    generation UInt32,
    engine     String,
    written_at DateTime64(3) DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(version)
ORDER BY tuple()
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1;

-- Facts have all events of a project with ids up to `hi`, in rows of steps up to `step`.
CREATE TABLE IF NOT EXISTS facts_progress
(
    generation UInt32,
    project_id LowCardinality(String),
    step       UInt32,
    hi         UInt128
)
ENGINE = ReplacingMergeTree(step)
ORDER BY (generation, project_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- Projects that an operator has excluded from copying into facts; the row with the highest version counts.
CREATE TABLE IF NOT EXISTS facts_left_out
(
    project_id  LowCardinality(String),
    is_left_out UInt8,
    version     UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY project_id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- The generations of facts that were compared with `events` since ClickHouse started: it starts without parts that are
-- damaged or missing, and forgets this. Only the facts of these generations are read. Numbers from 2^31 on mark
-- comparisons that are running: one whose number is gone starts over. A set is in memory only, and in no backup.
CREATE TABLE IF NOT EXISTS facts_checked
(
    generation UInt32
)
ENGINE = Set SETTINGS persistent = 0;

-- When questions last used a column with values of a property, to the hour; the others are dropped first.
CREATE TABLE IF NOT EXISTS facts_columns_used
(
    name    String,
    used_at DateTime DEFAULT now()
)
ENGINE = ReplacingMergeTree(used_at)
ORDER BY name
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
