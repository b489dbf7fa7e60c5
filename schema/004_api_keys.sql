-- Only the SHA-256 of a key is kept; the keys themselves are shown once, when they are made.
CREATE TABLE IF NOT EXISTS api_keys
(
    hash       String,
    project_id String,
    kind       LowCardinality(String),
    created_at Int64,
    version    UInt64,
    is_deleted UInt8
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY hash
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
