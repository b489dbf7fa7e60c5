-- The row with the highest version counts, so read it with FINAL. A version is the journal position of its commit.
CREATE TABLE IF NOT EXISTS profiles
(
    project_id    LowCardinality(String),
    distinct_id   String,
    properties    String CODEC(ZSTD(1)),
    created_at    Int64,
    updated_at    Int64,
    -- when each property was changed, as JSON; empty if all were set at `updated_at`
    times         String CODEC(ZSTD(1)),
    -- whether a user was identified by this name; only a call that may merge users can make it an alias of another one
    is_identified UInt8,
    -- whether everything in the profile came from aliases of the user: it is removed with them
    is_derived    UInt8,
    version       UInt64,
    is_deleted    UInt8
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (project_id, distinct_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    finished_mutations_to_keep = 1, string_serialization_version = 'single_stream', remove_empty_parts = 0;
