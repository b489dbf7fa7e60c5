#!lua flags=no-writes
-- Whether a journal was ever written to. Returns 1 or 0.
return tonumber(redis.call('HGET', KEYS.meta, 'added') or 0) > 0 and 1 or 0
