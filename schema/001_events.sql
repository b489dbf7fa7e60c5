-- Events as they were accepted. The id holds the journal position, so its order is the order of acceptance; ClickHouse
-- itself sorts UUIDs by their second half, hence toUInt128. `properties` is exactly the text that the client sent.
CREATE TABLE IF NOT EXISTS events
(
    project_id  LowCardinality(String),
    event_id    UUID CODEC(ZSTD(1)),
    event       LowCardinality(String),
    distinct_id String CODEC(ZSTD(1)),
    timestamp   Float64 CODEC(Delta(8), ZSTD(1)),
    received_at Int64 CODEC(Delta(8), ZSTD(1)),
    properties  String CODEC(ZSTD(1)),
    time        DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(toInt64(timestamp), 'UTC'),

    INDEX by_timestamp timestamp TYPE minmax GRANULARITY 1,
    INDEX by_distinct_id distinct_id TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(fromUnixTimestamp64Milli(toInt64(bitShiftRight(toUInt128(event_id), 80)), 'UTC'))
ORDER BY (project_id, toUInt128(event_id))
SETTINGS
    -- tokens of this many blocks are remembered: a writer that wakes after an hour still repeats nothing
    non_replicated_deduplication_window = 20000,
    -- edits and deletes are patch parts, which need these columns; they cannot be turned on later
    enable_block_number_column = 1,
    enable_block_offset_column = 1,
    lightweight_delete_mode = 'lightweight_update_force',
    -- the journal forgets a block once its INSERT is answered, so an answer has to outlive a power cut
    fsync_after_insert = 1,
    fsync_part_directory = 1;

-- What could not be stored as events by any way, with the reason; nothing accepted is thrown away.
CREATE TABLE IF NOT EXISTS dead_letters
(
    project_id  LowCardinality(String),
    position    UInt64,
    kind        LowCardinality(String),
    reason      String,
    body        String CODEC(ZSTD(1)),
    received_at Int64
)
ENGINE = MergeTree
ORDER BY (project_id, position)
SETTINGS non_replicated_deduplication_window = 20000, fsync_after_insert = 1, fsync_part_directory = 1;
