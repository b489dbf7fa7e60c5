-- The journals that wrote to this store, and since when. A lane has one journal, whose writer stores on one shard. A journal
-- that takes over from another assigns later positions than that one did.
CREATE TABLE IF NOT EXISTS journals
(
    id    UInt32,
    since Int64,
    lane  UInt16,
    shard UInt16
)
ENGINE = MergeTree
ORDER BY since
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- How many lanes and shards the store has; used on the first shard only. Of the highest version, the state that was recorded
-- last counts: 'changing', then 'moving' while `tallyhouse lanes set` moves data, then 'active'.
CREATE TABLE IF NOT EXISTS layouts
(
    version    UInt32,
    lanes      UInt16,
    shards     UInt16,
    state      LowCardinality(String),
    changed_at Int64
)
ENGINE = MergeTree
ORDER BY (version, changed_at)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- Which shard of which store this server is, so that a server in the wrong place is noticed.
CREATE TABLE IF NOT EXISTS shard_identity
(
    store_id UUID,
    number   UInt16,
    noted_at DateTime DEFAULT now()
)
ENGINE = MergeTree
ORDER BY noted_at
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
