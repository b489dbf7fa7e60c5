-- How many lanes and shards the store has; the highest version counts, and its state is what was recorded last. Kept on
-- the first shard only. It is 'changing' while `tallyhouse lanes set` moves what has to move, then 'active'.
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

-- A store from before this table has one of each. A new one gets what its settings say when it is started.
INSERT INTO layouts (version, lanes, shards, state, changed_at)
SELECT 1, 1, 1, 'active', toUnixTimestamp64Milli(now64(3)) WHERE (SELECT count() FROM journals) > 0;

-- Each lane has a journal, whose writer stores on one shard. Those from before these columns are the first on the first.
ALTER TABLE journals ADD COLUMN IF NOT EXISTS lane UInt16 DEFAULT 0;
ALTER TABLE journals ADD COLUMN IF NOT EXISTS shard UInt16 DEFAULT 0;

-- Which shard of which store this server is, so that one that was put in another's place is noticed.
CREATE TABLE IF NOT EXISTS shard_identity
(
    store_id UUID,
    number   UInt16,
    noted_at DateTime DEFAULT now()
)
ENGINE = MergeTree
ORDER BY noted_at
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
