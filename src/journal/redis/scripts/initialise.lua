#!lua flags=allow-oom
-- Creates an empty journal if there is none, or adopts one of another history: raises its positions, so that
-- positions that were lost here are not assigned again.
--
-- Returns { the journal's id, the last position that was here before, or "" }.
--- include shared/now
local meta = KEYS.meta
local id, history, last_ms, last_seq, kept_before =
  unpack(redis.call('HMGET', meta, 'id', 'history', 'ms', 'seq', 'kept'))
if id and history == ARGV.history then return { id, kept_before or '' } end

local kept = (last_ms or '0') .. '-' .. (last_seq or '0')
local ms, seq = tonumber(last_ms or 0), tonumber(last_seq or 0)
local function raise(to_ms, to_seq)
  if to_ms > ms or (to_ms == ms and to_seq > seq) then ms, seq = to_ms, to_seq end
end
raise(tonumber(ARGV.floorMs), tonumber(ARGV.floorSeq))
-- If the positions were ahead of the clock, less than a second's worth of them was lost.
if ms > 0 then raise(ms + 1000, 0) end
raise(now + tonumber(ARGV.toleranceMs), 0)

if not id then
  id = ARGV.journalId
  redis.call('HSET', meta, 'id', id, 'format', FORMAT, 'layout', ARGV.layout, 'bytes', 0, 'states', 0, 'added', 0, 'settled', 0,
    'stored', '0-0')
end
local text = string.format('%.0f', ms)
redis.call('HSET', meta, 'history', ARGV.history, 'ms', text, 'seq', seq, 'kept', kept)
-- If nothing waits, everything that was assigned is in the store or lost.
if redis.call('XLEN', KEYS.stream) == 0 then redis.call('HSET', meta, 'stored', text .. '-' .. seq) end
return { id, kept }
