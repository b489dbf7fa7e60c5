-- Changes of stored events: edits, deletions, erasures, replays of dead letters, and expiry. A change is logged before
-- it touches `events` and when it has ended, on the shard that has the events; it is settled once the facts have
-- followed it. The row with the highest `state` counts: 0 begun, 1 abandoned, 2 ended, 3 settled. `scope` is JSON that
-- selects the events; it has users as hashes. Settled changes are removed after ten minutes; then their project has a
-- row of kind `forgotten`.
CREATE TABLE IF NOT EXISTS event_changes
(
    project_id LowCardinality(String),
    id         UUID,
    kind       LowCardinality(String),
    scope      String CODEC(ZSTD(1)),
    state      UInt8,
    noted_at   DateTime64(3) DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(state)
ORDER BY (project_id, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- The settled changes of the last seven days, for readers that follow the events of a store: one that was away for
-- longer has to read all events again. A change may be there twice, and two changes of an event in either order, so a
-- reader must use the event as it is now.
CREATE TABLE IF NOT EXISTS event_change_log
(
    settled_at DateTime64(3) DEFAULT now64(3),
    project_id LowCardinality(String),
    id         UUID,
    kind       LowCardinality(String),
    scope      String CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toDate(settled_at, 'UTC')
ORDER BY (settled_at, project_id)
TTL toDateTime(settled_at) + INTERVAL 7 DAY
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
