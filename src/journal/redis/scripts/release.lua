#!lua flags=allow-oom
-- Releases the writer's lease. Returns 1, or 0 if the writer does not hold it.
if redis.call('GET', KEYS.lease) ~= ARGV.writer then return 0 end
return redis.call('DEL', KEYS.lease)
