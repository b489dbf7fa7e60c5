#!lua flags=allow-oom
-- Raises the positions past one, however far ahead of the clock.
local last_ms, last_seq = unpack(redis.call('HMGET', KEYS.meta, 'ms', 'seq'))
local ms, seq = tonumber(ARGV.ms), tonumber(ARGV.seq)
if ms > tonumber(last_ms) or (ms == tonumber(last_ms) and seq > tonumber(last_seq)) then
  redis.call('HSET', KEYS.meta, 'ms', ARGV.ms, 'seq', ARGV.seq)
  if redis.call('XLEN', KEYS.stream) == 0 then redis.call('HSET', KEYS.meta, 'stored', ARGV.ms .. '-' .. ARGV.seq) end
end
