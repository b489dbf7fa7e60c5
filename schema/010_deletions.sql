-- Profiles and sessions that were deleted, and whose earlier rows a purge has yet to take off the disk: it finds them
-- here, without a look at all that there are, and empties the table. `noted_at` is the server's time.
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
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, finished_mutations_to_keep = 1;

-- An INSERT that brings a deletion is answered when the deletion is noted, too.
CREATE MATERIALIZED VIEW IF NOT EXISTS deleted_profiles TO deletions AS
SELECT 'profiles' AS kind, project_id, distinct_id AS name, version FROM profiles WHERE is_deleted = 1;
CREATE MATERIALIZED VIEW IF NOT EXISTS deleted_sessions TO deletions AS
SELECT 'sessions' AS kind, project_id, session_id AS name, version FROM sessions WHERE is_deleted = 1;

-- Those from before; once more does no harm.
INSERT INTO deletions (kind, project_id, name, version)
SELECT 'profiles', project_id, distinct_id, version FROM profiles WHERE is_deleted = 1;
INSERT INTO deletions (kind, project_id, name, version)
SELECT 'sessions', project_id, session_id, version FROM sessions WHERE is_deleted = 1;

-- The text of a mutation quotes names, and is kept until this many later ones are done; 0 would keep all.
ALTER TABLE profiles MODIFY SETTING finished_mutations_to_keep = 1;
ALTER TABLE sessions MODIFY SETTING finished_mutations_to_keep = 1;
