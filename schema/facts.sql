-- A copy of the events for questions: the columns that they compare, sorted the way they read. It can be built again
-- from `events` at any time. The newest events are missing until they are copied.
CREATE TABLE IF NOT EXISTS event_facts
(
    project_id  LowCardinality(String),
    event       LowCardinality(String),
    -- The UTC day of `timestamp`, because a function of a column in the key does not exclude rows.
    day         Date32,
    -- The hash of `distinct_id`: questions count users by it, and read the text only to name them.
    user        UInt64 CODEC(ZSTD(1)),
    timestamp   Float64 CODEC(ZSTD(1)),
    event_id    UUID CODEC(ZSTD(1)),
    distinct_id String CODEC(ZSTD(1)),
    -- the hash of `session_id`; 0 without one
    session     UInt64 CODEC(ZSTD(1)),
    session_id  String CODEC(ZSTD(1)),
    browser         LowCardinality(String),
    browser_version LowCardinality(String),
    os              LowCardinality(String),
    os_version      LowCardinality(String),
    device          LowCardinality(String),
    country         LowCardinality(String),
    region          LowCardinality(String),
    city            LowCardinality(String),
    language        LowCardinality(String),
    bot             UInt8,
    properties  String CODEC(ZSTD(1)),
    -- whether ClickHouse's parser rejects the text of the properties
    refused     UInt8,
    -- number of the step that copied the row
    step        UInt32 CODEC(ZSTD(1)),

    INDEX by_step step TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
-- Partitioned like `events`: a step is one part, however many months of `timestamp` it has.
PARTITION BY toYYYYMM(fromUnixTimestamp64Milli(toInt64(bitShiftRight(toUInt128(event_id), 80)), 'UTC'))
ORDER BY (project_id, event, day, user, timestamp)
SETTINGS
    -- ClickHouse starts however much of it is damaged, and missing rows are copied again.
    max_suspicious_broken_parts = 1000000,
    max_suspicious_broken_parts_bytes = 1000000000000000,
    enable_block_number_column = 1,
    enable_block_offset_column = 1,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1;
