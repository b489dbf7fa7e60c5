-- Which journal wrote to these tables, and since when: one that comes back after another has to go on behind it.
CREATE TABLE IF NOT EXISTS journals
(
    id    UInt32,
    since Int64
)
ENGINE = MergeTree
ORDER BY since
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
