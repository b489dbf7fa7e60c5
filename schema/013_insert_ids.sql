-- What a client says an event is, by which a repetition of it is known; empty where it says nothing.
ALTER TABLE events ADD COLUMN IF NOT EXISTS insert_id String DEFAULT '' CODEC(ZSTD(1)) AFTER properties;
