-- The ledger of a project: every event that the journals acknowledged is stored, refused or deleted. This table counts
-- the deleted ones. The last revision of a counter has the number of deleted events, and of those being deleted.
-- `left_query` (a query and its parameters as JSON) finds which of the latter still exist, also after a deletion was
-- interrupted. Unused counters are summed under the UUID of zeros.
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

-- Events that the journals of a layout do not count, because they were acknowledged by other journals, imported,
-- restored or given up. Negative if the journals count events that are gone. `since` is by the clock of the process
-- that noted it.
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
