-- Only the SHA-256 of a key is stored; the key itself is shown once, when it is made.
CREATE TABLE IF NOT EXISTS api_keys
(
    hash        String,
    -- the prefix of the key and 8 of its 43 random characters, for lists
    id          String,
    project_id  String,
    kind        LowCardinality(String),
    -- of the pages that may use it; none: any
    origins     Array(String),
    -- whether a write key may send nothing but events and session calls
    events_only UInt8,
    created_at  Int64,
    -- epoch ms from which it is refused; in the future while a replaced key is still valid
    revoked_at  Nullable(Int64),
    version     UInt64,
    is_deleted  UInt8
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY hash
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, remove_empty_parts = 0;
