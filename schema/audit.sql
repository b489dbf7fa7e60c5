-- Who changed what in a project. An entry is stored before its change; reads leave out those older than a year, and merges
-- remove them.
CREATE TABLE IF NOT EXISTS audit
(
    project_id   LowCardinality(String),
    -- epoch ms
    changed_at   Int64,
    id           UUID,
    -- 'key', 'command_line' or 'service'
    actor        LowCardinality(String),
    -- of the actor's key, as they were then
    key_id       String,
    key_label    String,
    action       LowCardinality(String),
    target_id    String,
    target_label String,
    -- JSON: the old and the new value of each field, by name
    changes      String
)
ENGINE = ReplacingMergeTree
ORDER BY (project_id, changed_at, id)
TTL toDateTime(intDiv(changed_at, 1000)) + INTERVAL 365 DAY
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, remove_empty_parts = 0;
