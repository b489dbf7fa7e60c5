-- Versioned as profiles are.
CREATE TABLE IF NOT EXISTS sessions
(
    project_id  LowCardinality(String),
    session_id  String,
    distinct_id String,
    state       LowCardinality(String),
    properties  String CODEC(ZSTD(1)),
    -- in the client's unit; null if the client never sent one
    duration    Nullable(Float64),
    started_at  Int64,
    updated_at  Int64,
    ended_at    Nullable(Int64),
    -- what the first call said about its sender; empty if it said nothing
    browser         LowCardinality(String) DEFAULT '',
    browser_version LowCardinality(String) DEFAULT '',
    os              LowCardinality(String) DEFAULT '',
    os_version      LowCardinality(String) DEFAULT '',
    device          LowCardinality(String) DEFAULT '',
    country         LowCardinality(String) DEFAULT '',
    region          LowCardinality(String) DEFAULT '',
    city            LowCardinality(String) DEFAULT '',
    language        LowCardinality(String) DEFAULT '',
    bot             UInt8 DEFAULT 0,
    version     UInt64,
    is_deleted  UInt8,

    INDEX by_distinct_id distinct_id TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (project_id, session_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    finished_mutations_to_keep = 1, string_serialization_version = 'single_stream', remove_empty_parts = 0;
