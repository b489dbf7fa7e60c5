-- Origins of the pages that may use a key, none for any; and whether a write key sends nothing but events and session calls.
ALTER TABLE api_keys ADD COLUMN IF NOT EXISTS origins Array(String);
ALTER TABLE api_keys ADD COLUMN IF NOT EXISTS events_only UInt8;
