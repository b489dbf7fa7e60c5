-- Only the SHA-256 of a key is stored; the key itself is shown once, when it is made. A change of a key is an INSERT whose
-- token names the version that it replaces, so of two changes of one version, one is stored.
CREATE TABLE IF NOT EXISTS api_keys
(
    hash        String,
    -- the prefix of the key and 8 of its 43 random characters, for lists
    id          String,
    project_id  String,
    kind        LowCardinality(String),
    -- what people call it
    label       String,
    -- origins of the pages that may use it; none: any
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
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, remove_empty_parts = 0;

-- When each key was last used, and how often it was refused: each process adds what it has counted. A key is named by its id,
-- because the hash of a short key of the environment could be guessed.
CREATE TABLE IF NOT EXISTS key_usage
(
    project_id   LowCardinality(String),
    key_id       String,
    -- days in UTC; 1970-01-01 for never
    last_used    SimpleAggregateFunction(max, Date),
    refused      SimpleAggregateFunction(sum, UInt64),
    last_refused SimpleAggregateFunction(max, Date)
)
ENGINE = AggregatingMergeTree
ORDER BY (project_id, key_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
