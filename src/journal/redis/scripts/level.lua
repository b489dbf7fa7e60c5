#!lua flags=allow-oom
-- Lifts the positions to one of another journal, so that positions assigned later are greater. Reads the progress.
--
-- Returns { last position assigned or lifted to, the first one that waits or "", pending events of the project, its
-- deletions, 1 if none of its data waits }.
--- include shared/now
--- include shared/refusal
--- include shared/holds-nothing
local meta = KEYS.meta
local last_ms, last_seq, id, layout = unpack(redis.call('HMGET', meta, 'ms', 'seq', 'id', 'layout'))
local refused = refusal(id, layout)
if refused then return refused end
local ms, seq, to_ms, to_seq = tonumber(last_ms), tonumber(last_seq), tonumber(ARGV.ms), tonumber(ARGV.seq)
if to_ms > now + MAX_LIFT_MS then to_ms, to_seq = now + MAX_LIFT_MS, 0 end
local first = redis.call('XRANGE', KEYS.stream, '-', '+', 'COUNT', 1)[1]
if to_ms > ms or (to_ms == ms and to_seq > seq) then
  ms, seq = to_ms, to_seq
  local text = string.format('%.0f', ms)
  redis.call('HSET', meta, 'ms', text, 'seq', seq)
  if not first then redis.call('HSET', meta, 'stored', text .. '-' .. string.format('%.0f', seq)) end
end
return {
  string.format('%.0f-%.0f', ms, seq), first and first[1] or '',
  redis.call('HGET', KEYS.pending, ARGV.project) or '0', redis.call('HGET', KEYS.deletions, ARGV.project) or '0',
  holds_nothing(ARGV.project) and 1 or 0
}
