-- The random salt of each day (UTC), from which the names of daily visitors are made. A partition is dropped two days after
-- its day, so nobody can tell from then on who a visitor was. Of several processes that make one, the first one's INSERT is
-- stored, because they have the same token. Used on the first shard only.
CREATE TABLE IF NOT EXISTS visitor_salts
(
    day  Date,
    salt String
)
ENGINE = MergeTree
PARTITION BY day
ORDER BY day
SETTINGS non_replicated_deduplication_window = 100, fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1;
