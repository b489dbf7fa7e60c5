#!lua flags=allow-oom
-- Sets which processes may use the journal, and whether they may write. Removes the mark of the states, so that the
-- processes no longer rely on it.
--
-- Returns 1, or 0 if there is no journal.
local present = redis.call('HGET', KEYS.meta, 'layout')
if not present then return 0 end
local layout = ARGV.version
if layout == '' then layout = string.match(present, '^%d+') end
if ARGV.closedFor ~= '' then layout = layout .. '>' .. ARGV.closedFor end
redis.call('DEL', KEYS.mark)
redis.call('HSET', KEYS.meta, 'layout', layout)
return 1
