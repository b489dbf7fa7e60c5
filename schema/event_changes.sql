-- The log of what changed stored events: edits, deletions, erasures, replays of dead letters, and what expired. A change is
-- logged before it touches `events` and when it has ended, on the shard that has the events; it is settled once the facts
-- have followed. The row with the highest `state` counts: 0 begun, 1 ended, 2 settled. `scope` is JSON that says which
-- events; users are in it as hashes, and a settled change has none.
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
