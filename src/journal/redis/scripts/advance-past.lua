#!lua flags=allow-oom
-- Raises the positions past one that the store has. If nothing waits, marks everything up to it as stored, and
-- resets the counts.
--
-- Returns 1 if nothing waits, else 0. The caller has to delete the states if nothing does.
local meta = KEYS.meta
local last_ms, last_seq = unpack(redis.call('HMGET', meta, 'ms', 'seq'))
local ms, seq = tonumber(ARGV.ms), tonumber(ARGV.seq)
if ms > tonumber(last_ms) or (ms == tonumber(last_ms) and seq > tonumber(last_seq)) then
  last_ms, last_seq = ARGV.ms, ARGV.seq
  redis.call('HSET', meta, 'ms', last_ms, 'seq', last_seq)
end
if redis.call('XLEN', KEYS.stream) > 0 then return 0 end
redis.call('HSET', meta, 'stored', last_ms .. '-' .. last_seq, 'states', 0)
redis.call('DEL', KEYS.expiries, KEYS.cache, KEYS.held)
return 1
