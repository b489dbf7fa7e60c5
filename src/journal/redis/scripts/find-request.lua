#!lua flags=no-writes
-- Finds a remembered request.
--
-- Returns "repeated:<position>", followed by ":<id of a journal>" and ":<index>" if they are remembered, "mismatch"
-- or nil.
local prefix = ARGV.prefix
local request_buckets = redis.call('HGET', KEYS.meta, 'request-buckets')
--- include shared/now
--- include shared/remembered
--- include shared/requests
return (known(ARGV.shard, ARGV.digest))
