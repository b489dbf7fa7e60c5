-- Reads the progress of the journal and the store.
--
-- Returns { last position assigned, stored, pending events of the project, its deletions, 1 if none of its data waits }.
--- include shared/refusal
--- include shared/holds-nothing
local ms, seq, stored, id, layout = unpack(redis.call('HMGET', KEYS.meta, 'ms', 'seq', 'stored', 'id', 'layout'))
local refused = refusal(id, layout)
if refused then return refused end
return {
  ms .. '-' .. seq, stored, redis.call('HGET', KEYS.pending, ARGV.project) or '0',
  redis.call('HGET', KEYS.deletions, ARGV.project) or '0', holds_nothing(ARGV.project) and 1 or 0
}
