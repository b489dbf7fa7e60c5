-- The parts that each table had when the service last looked, with their rows in total and by project: a part that is gone
-- and was not merged into another one is lost. One row for each partition of a table; the newest counts.
CREATE TABLE IF NOT EXISTS known_parts
(
    table_name   LowCardinality(String),
    -- A RESTORE makes another table, with parts of other names. Zero if there are replicas.
    table_uuid   UUID,
    partition_id String,
    parts        Array(Tuple(name String, first Int64, last Int64, rows UInt64, projects Map(String, UInt64))) CODEC(ZSTD(1)),
    version      UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (table_name, partition_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- Lost parts, until they are settled: the part is there again, or an operator has dealt with it. A part that ClickHouse has
-- detached but also has within another one is settled from the beginning.
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
