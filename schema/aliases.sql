-- Other names of users, versioned like profiles.
CREATE TABLE IF NOT EXISTS aliases
(
    project_id  LowCardinality(String),
    alias       String,
    -- the name that the alias leads to, which may be an alias itself; empty for a user who has aliases
    distinct_id String,
    -- the name that the call gave, by which the alias can be taken back
    said        String,
    created_at  Int64,
    -- the user whose profile got properties of this one, and the names of those properties
    given_to    String,
    given       Array(String),
    is_pending  UInt8,
    is_leaving  UInt8,
    -- Epoch ms. Aliases may still lead to a user that has become an alias itself, until they are made to lead to the user of
    -- both. Zero for every other alias: nothing leads to it.
    step_at     Int64,
    version     UInt64,
    is_deleted  UInt8,

    INDEX by_distinct_id distinct_id TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (project_id, alias)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    finished_mutations_to_keep = 1, remove_empty_parts = 0;
