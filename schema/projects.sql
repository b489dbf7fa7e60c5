-- The settings of projects as JSON; settings that a project has not set have their defaults. A change is an INSERT
-- whose token is the version that it replaces, so of two changes of one version, one is stored; `write_id` says which.
-- Used on the first shard only. Rows are never deleted: a project that is removed gets empty settings.
CREATE TABLE IF NOT EXISTS projects
(
    project_id LowCardinality(String),
    settings   String CODEC(ZSTD(1)),
    updated_at Int64,
    write_id   UUID,
    version    UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY project_id
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1;

-- Work that one process does at a time, such as removing expired data. Each turn is claimed by an INSERT with a separate
-- token, so only one process has it; `process` says which. `turn` is when it began, in ms, by the clock of the process,
-- which may have been wrong. Used on the first shard only.
CREATE TABLE IF NOT EXISTS turns
(
    task       String,
    turn       UInt64,
    process    UUID,
    claimed_at DateTime DEFAULT now()
)
ENGINE = MergeTree
ORDER BY (task, turn)
TTL claimed_at + INTERVAL 1 YEAR
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1;

-- What projects have used on a day (UTC), as each process has counted it; its row with the highest version counts. What a
-- project has on the disks is measured for all processes together, and is in a row of the process of zeros. Used on the
-- first shard only.
CREATE TABLE IF NOT EXISTS project_usage
(
    project_id   LowCardinality(String),
    day          Date,
    process      UUID,
    events       UInt64,
    -- as they came
    bytes        UInt64,
    -- on the disks of all shards, as last measured
    stored_bytes UInt64 DEFAULT 0,
    -- CPU time of ClickHouse for its reads; null if ClickHouse does not tell
    read_cpu_ms  Nullable(UInt64) DEFAULT 0,
    version      UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (project_id, day, process)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
