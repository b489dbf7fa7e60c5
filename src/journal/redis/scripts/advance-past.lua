#!lua flags=allow-oom
-- Raises the positions past one that the store has. If nothing waits, marks everything up to it as stored, and
-- resets the counts; those of expiring states change when the states are removed.
--
-- Returns the last position if nothing waits, else nil. The caller has to remove the states up to there; later ones
-- belong to entries that wait by then.
local meta = KEYS.meta
local last_ms, last_seq = unpack(redis.call('HMGET', meta, 'ms', 'seq'))
local ms, seq = tonumber(ARGV.ms), tonumber(ARGV.seq)
if ms > tonumber(last_ms) or (ms == tonumber(last_ms) and seq > tonumber(last_seq)) then
  last_ms, last_seq = ARGV.ms, ARGV.seq
  redis.call('HSET', meta, 'ms', last_ms, 'seq', last_seq)
end
if redis.call('XLEN', KEYS.stream) > 0 then return nil end
local last = last_ms .. '-' .. last_seq
redis.call('HSET', meta, 'stored', last, 'states', 0)
redis.call('DEL', KEYS.cache, KEYS.held)
return last
