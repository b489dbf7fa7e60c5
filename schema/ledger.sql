-- The ledger of a project: what the journals acknowledged is stored, refused or deleted. This counts what was deleted. A
-- counter has a note of its last revision: the number of deleted events, and how many are being deleted. What `left_query`
-- finds of those is not deleted yet, or was left by a deletion that was interrupted; it is a query and its parameters as JSON.
-- Counters that are no longer used are summed, under the UUID of zeros.
CREATE TABLE IF NOT EXISTS deleted_events
(
    project_id LowCardinality(String),
    counter    UUID,
    revision   UInt64,
    count      Int64,
    pending    UInt64,
    left_query String,
    noted_at   DateTime64(3) DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY (project_id, counter)
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
