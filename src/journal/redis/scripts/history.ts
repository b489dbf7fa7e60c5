import { NOW } from './shared.js'

/**
 * Reads the history of Redis and that to which the journal belongs.
 *
 * KEYS  meta
 * Returns { the journal's number or "", its history or "", that of Redis or "" where INFO is forbidden, the stored
 * position or "", the last position that was here when the history became the journal's or "", its format or "" }.
 * Errors: READONLY on a replica, whose history is its master's until it becomes one itself.
 */
export const LOOK = `#!lua flags=no-writes
local info = redis.pcall('INFO', 'replication')
if type(info) ~= 'string' then info = '' end
if string.match(info, 'role:(%a+)') == 'slave' then return redis.error_reply('READONLY this Redis is a replica') end
local head = redis.call('HMGET', KEYS[1], 'id', 'history', 'stored', 'kept', 'format')
local name = string.match(info, 'master_replid:(%x+)') or ''
return { head[1] or '', head[2] or '', name, head[3] or '', head[4] or '', head[5] or '' }
`

/**
 * Creates an empty journal where there is none, or adopts one of another history: raises its positions, so that none of
 * those which are missing here is assigned again.
 *
 * KEYS  meta, stream
 * ARGV  the number of a new journal, the history, how many ms the clock of the previous Redis may have been ahead, ms
 *       and seq of the greatest position that the caller knows, of a new journal the version of the layout and the format
 * Returns { the journal's number, the last position that was here before, or "" }.
 */
export const INITIALISE = `#!lua flags=allow-oom
local meta, stream, history = KEYS[1], KEYS[2], ARGV[2]
local head = redis.call('HMGET', meta, 'id', 'history', 'ms', 'seq', 'kept')
if head[1] and head[2] == history then return { head[1], head[5] or '' } end

${NOW}
local ms, seq = tonumber(head[3] or 0), tonumber(head[4] or 0)
local kept = (head[3] or '0') .. '-' .. (head[4] or '0')
local function raise(to_ms, to_seq)
  if to_ms > ms or (to_ms == ms and to_seq > seq) then ms, seq = to_ms, to_seq end
end
raise(tonumber(ARGV[4]), tonumber(ARGV[5]))
-- Where the positions were ahead of the clock already, those that are missing here are less than a second's.
if ms > 0 then raise(ms + 1000, 0) end
raise(now + tonumber(ARGV[3]), 0)

if not head[1] then
  redis.call('HSET', meta, 'id', ARGV[1], 'format', ARGV[7], 'bytes', 0, 'added', 0, 'settled', 0, 'stored', '0-0')
  if ARGV[6] ~= '1' then redis.call('HSET', meta, 'layout', ARGV[6]) end
end
local text = string.format('%.0f', ms)
redis.call('HSET', meta, 'history', history, 'ms', text, 'seq', seq, 'kept', kept)
-- Where nothing waits, everything assigned is in the store or lost.
if redis.call('XLEN', stream) == 0 then redis.call('HSET', meta, 'stored', text .. '-' .. seq) end
return { head[1] or ARGV[1], kept }
`

/**
 * Whether one of several journals was ever written to.
 *
 * KEYS  the meta of each
 * Returns 1 or 0.
 */
export const ARE_USED = `#!lua flags=no-writes
for i = 1, #KEYS do
  if tonumber(redis.call('HGET', KEYS[i], 'added') or 0) > 0 then return 1 end
end
return 0
`

/**
 * Raises the positions past one that the store has, and marks everything up to it as stored where nothing waits.
 *
 * KEYS  stream, meta, then what is counted: the expiries of the states, which the caller has to delete then, the order of
 *       the cached ones, and what senders hold
 * ARGV  the position's ms, its seq
 * Returns 1 where nothing waits, else 0.
 */
export const ADVANCE_PAST = `
local stream, meta = KEYS[1], KEYS[2]
local head = redis.call('HMGET', meta, 'ms', 'seq')
local ms, seq = tonumber(ARGV[1]), tonumber(ARGV[2])
if ms > tonumber(head[1]) or (ms == tonumber(head[1]) and seq > tonumber(head[2])) then
  redis.call('HSET', meta, 'ms', ARGV[1], 'seq', ARGV[2])
end
if redis.call('XLEN', stream) > 0 then return 0 end
head = redis.call('HMGET', meta, 'ms', 'seq')
redis.call('HSET', meta, 'stored', head[1] .. '-' .. head[2], 'states', 0)
redis.call('DEL', KEYS[3], KEYS[4], KEYS[5])
return 1
`
