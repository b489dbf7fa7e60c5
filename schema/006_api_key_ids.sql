-- What a list shows of a key: its prefix and 8 of its 43 random characters. Keys from before this column are named by their hash.
ALTER TABLE api_keys ADD COLUMN IF NOT EXISTS
    id String DEFAULT concat(if(kind = 'public', 'pk_', 'sk_'), substring(hash, 1, 8));
-- Epoch milliseconds from which on a key is refused; it lies ahead while a replaced key is still good.
ALTER TABLE api_keys ADD COLUMN IF NOT EXISTS revoked_at Nullable(Int64);
