#!lua flags=no-writes
-- Finds a remembered request.
--
-- Returns "repeated:<position>", followed by ":<id of a journal>" and ":<index>" if they are remembered, "mismatch"
-- or nil.
local prefix = ARGV.prefix
--- include shared/now
--- include shared/requests
return (known(ARGV.shard, ARGV.digest))
