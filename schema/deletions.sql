-- Deleted profiles, sessions and aliases whose earlier rows a purge still has to remove from the disk. The purge finds
-- them here without reading the tables, and empties this one. `noted_at` is the server's time.
CREATE TABLE IF NOT EXISTS deletions
(
    kind       LowCardinality(String),
    project_id LowCardinality(String),
    name       String,
    version    UInt64,
    noted_at   DateTime DEFAULT now()
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (kind, project_id, name)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    finished_mutations_to_keep = 1;

-- An INSERT of a deletion is answered only when these have noted it too.
CREATE MATERIALIZED VIEW IF NOT EXISTS deleted_profiles TO deletions AS
SELECT 'profiles' AS kind, project_id, distinct_id AS name, version FROM profiles WHERE is_deleted = 1;
CREATE MATERIALIZED VIEW IF NOT EXISTS deleted_sessions TO deletions AS
SELECT 'sessions' AS kind, project_id, session_id AS name, version FROM sessions WHERE is_deleted = 1;
CREATE MATERIALIZED VIEW IF NOT EXISTS deleted_aliases TO deletions AS
SELECT 'aliases' AS kind, project_id, alias AS name, version FROM aliases WHERE is_deleted = 1;
