-- When the properties of a profile were changed, as JSON; empty where all were set at `updated_at`, as in earlier rows.
ALTER TABLE profiles ADD COLUMN IF NOT EXISTS times String DEFAULT '' CODEC(ZSTD(1)) AFTER updated_at;
