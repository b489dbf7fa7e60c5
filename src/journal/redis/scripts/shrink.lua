#!lua flags=allow-oom
-- Shrinks the frozen block. Returns 1, or 0 if another writer has moved on.
if redis.call('HGET', KEYS.meta, 'frozen') ~= ARGV.frozen then return 0 end
redis.call('HSET', KEYS.meta, 'frozen', ARGV.shrunk)
return 1
