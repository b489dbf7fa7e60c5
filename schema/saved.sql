-- Saved questions and boards of a project. `content` is the text of the question, or of the cards. A change is an INSERT
-- whose token is the version that it replaces, so of two changes of one version, one is stored; `write_id` says which.
CREATE TABLE IF NOT EXISTS saved
(
    project_id LowCardinality(String),
    kind       LowCardinality(String),
    id         String,
    name       String,
    content    String CODEC(ZSTD(1)),
    display    String CODEC(ZSTD(1)),
    cards      UInt16,
    updated_at Int64,
    write_id   UUID,
    version    UInt64,
    is_deleted UInt8
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (project_id, kind, id)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, finished_mutations_to_keep = 1, remove_empty_parts = 0;
