-- Other names of users. What a name stands for may be an alias itself, so it is followed to its end.
CREATE TABLE IF NOT EXISTS aliases
(
    project_id  LowCardinality(String),
    alias       String,
    distinct_id String,
    created_at  Int64,
    version     UInt64,
    is_deleted  UInt8,

    INDEX by_distinct_id distinct_id TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (project_id, alias)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, finished_mutations_to_keep = 1;

-- As for profiles and sessions: what a purge has yet to take off the disk.
CREATE MATERIALIZED VIEW IF NOT EXISTS deleted_aliases TO deletions AS
SELECT 'aliases' AS kind, project_id, alias AS name, version FROM aliases WHERE is_deleted = 1;
