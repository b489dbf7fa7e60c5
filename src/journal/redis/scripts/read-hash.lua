#!lua flags=no-writes
-- Reads a hash, byte for byte. Returns its fields and values in turn.
return redis.call('HGETALL', KEYS.hash)
