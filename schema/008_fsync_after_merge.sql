-- ClickHouse writes no merged part through to the disk by itself, and may delete at once the parts that it was made of
-- (old_parts_lifetime is 0 in 26.7): at a power cut both would be gone.
ALTER TABLE events MODIFY SETTING min_rows_to_fsync_after_merge = 1;
ALTER TABLE dead_letters MODIFY SETTING min_rows_to_fsync_after_merge = 1;
ALTER TABLE dead_letter_replays MODIFY SETTING min_rows_to_fsync_after_merge = 1;
ALTER TABLE profiles MODIFY SETTING min_rows_to_fsync_after_merge = 1;
ALTER TABLE sessions MODIFY SETTING min_rows_to_fsync_after_merge = 1;
ALTER TABLE api_keys MODIFY SETTING min_rows_to_fsync_after_merge = 1;
ALTER TABLE journals MODIFY SETTING min_rows_to_fsync_after_merge = 1;
