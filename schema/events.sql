-- Events as they were accepted; `properties` is the client's exact text. The id begins with the journal position, so its
-- order is the order of acceptance. ClickHouse sorts UUIDs by their second half, hence toUInt128.
CREATE TABLE IF NOT EXISTS events
(
    project_id  LowCardinality(String),
    event_id    UUID CODEC(ZSTD(1)),
    event       LowCardinality(String),
    distinct_id String CODEC(ZSTD(1)),
    timestamp   Float64 CODEC(Delta(8), ZSTD(1)),
    received_at Int64 CODEC(Delta(8), ZSTD(1)),
    properties  String CODEC(ZSTD(1)),
    -- the client's own id of the event, by which a repetition is recognized; empty if it has none
    insert_id   String CODEC(ZSTD(1)),
    -- the session that the event belongs to; empty if it has none
    session_id  String CODEC(ZSTD(1)),
    -- what the request said about its sender; empty if it said nothing
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
    time        DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(toInt64(timestamp), 'UTC'),

    INDEX by_timestamp timestamp TYPE minmax GRANULARITY 1,
    INDEX by_distinct_id distinct_id TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(fromUnixTimestamp64Milli(toInt64(bitShiftRight(toUInt128(event_id), 80)), 'UTC'))
ORDER BY (project_id, toUInt128(event_id))
SETTINGS
    non_replicated_deduplication_window = 20000,
    -- Edits and deletes are patch parts, which need these columns. They cannot be turned on later.
    enable_block_number_column = 1,
    enable_block_offset_column = 1,
    fsync_after_insert = 1,
    fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1,
    -- Parts follow one another in the order of their ids, so having many costs a reader little. Fewer merges save a quarter
    -- of ClickHouse's CPU under batches, and more than a third of what it writes to the disk.
    merge_selector_base = 12,
    string_serialization_version = 'single_stream',
    remove_empty_parts = 0;
