#!lua flags=allow-oom
-- Releases the writer's lease if another writer has asked for it within the duration of a lease; the writer then no
-- longer asks for it as a home writer. Returns 0 if the writer keeps the lease, or 1 if another one may have it from
-- now on, because it was released or has expired.
if redis.call('GET', KEYS.wanted) == ARGV.writer then redis.call('DEL', KEYS.wanted) end
if redis.call('GET', KEYS.lease) ~= ARGV.writer then return 1 end
local asked = redis.call('GET', KEYS.asked)
if not asked or asked == ARGV.writer then return 0 end
return redis.call('DEL', KEYS.lease)
