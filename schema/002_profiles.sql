-- The newest version of a row counts, so it is read with FINAL; a version is the journal position of its commit.
CREATE TABLE IF NOT EXISTS profiles
(
    project_id  LowCardinality(String),
    distinct_id String,
    properties  String CODEC(ZSTD(1)),
    created_at  Int64,
    updated_at  Int64,
    version     UInt64,
    is_deleted  UInt8
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (project_id, distinct_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
