-- The ledger of a project: what the journals acknowledged is stored, refused or deleted. This counts what was deleted. Each
-- process adds to its count before it deletes; its greatest count is the current one.
CREATE TABLE IF NOT EXISTS deleted_events
(
    project_id LowCardinality(String),
    process    UUID,
    count      UInt64
)
ENGINE = ReplacingMergeTree(count)
ORDER BY (project_id, process)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;

-- What the journals of a layout do not count, because it was acknowledged by other journals, imported, restored or given up;
-- if negative, what they count and is gone. `since` is by the clock of the process that noted it.
CREATE TABLE IF NOT EXISTS ledger_bases
(
    layout     UInt32,
    project_id LowCardinality(String),
    carried    Int64,
    since      Int64,
    version    UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (layout, project_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
