#!lua flags=no-writes
-- Reads the counts of the journal.
--
-- Returns { the journal's id or nil, stored, then for each hash its projects and numbers in turn }.
local id, stored = unpack(redis.call('HMGET', KEYS.meta, 'id', 'stored'))
return {
  id, stored, redis.call('HGETALL', KEYS.pending), redis.call('HGETALL', KEYS.acknowledged),
  redis.call('HGETALL', KEYS.repeated)
}
