import { MAX_LIFT_MS } from '../../journal.js'
import { CACHED_STATES, NOW, STATES_MARK } from './shared.js'

/**
 * Reads states: as many of the first keys as fit into the bytes, at least one.
 *
 * KEYS  meta, for the slot
 * ARGV  prefix, bytes, state keys
 * Returns { ms of the clock, the mark of the states or "", then for each key "<version> <state>", "<version>" where the store
 * has the state, or nil where it has none }.
 */
export const READ_STATES = `#!lua flags=no-writes
${NOW}
local reply = { string.format('%.0f', now), redis.call('GET', ARGV[1] .. ':state:${STATES_MARK}') or '' }
local bytes, max_bytes = 0, tonumber(ARGV[2])
for i = 3, #ARGV do
  local key = ARGV[1] .. ':state:' .. ARGV[i]
  bytes = bytes + redis.call('STRLEN', key)
  if bytes > max_bytes and i > 3 then break end
  reply[i] = redis.call('GET', key)
end
return reply
`

/**
 * Reads the mark of the states, and makes it where there is none. It has the last entry of the stream: states of those up
 * to it may have vanished together with another mark.
 *
 * KEYS  stream, meta, mark
 * ARGV  the journal's number, the version of the layout, a random text
 * Returns { ms of the clock, "<random text> <position>" }.
 */
export const MARK_STATES = `#!lua flags=allow-oom
local head = redis.call('HMGET', KEYS[2], 'id', 'layout')
if head[1] ~= ARGV[1] then return redis.error_reply('GONE this journal does not exist') end
local layout = head[2] or '1'
if layout ~= ARGV[2] and string.match(layout, '^%d+') ~= ARGV[2] then return redis.error_reply('LAYOUT ' .. layout) end
${NOW}
local mark = redis.call('GET', KEYS[3])
if not mark then
  local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  mark = ARGV[3] .. ' ' .. (last and last[1] or '0-0')
  redis.call('SET', KEYS[3], mark)
end
return { string.format('%.0f', now), mark }
`

/**
 * Reads what the journal has counted.
 *
 * KEYS  meta, pending, the events that were acknowledged, those that were repeated
 * Returns { the journal's number or nil, stored, then the projects and numbers of each hash in turn }.
 */
export const TALLY = `#!lua flags=no-writes
local head = redis.call('HMGET', KEYS[1], 'id', 'stored')
return { head[1], head[2], redis.call('HGETALL', KEYS[2]), redis.call('HGETALL', KEYS[3]), redis.call('HGETALL', KEYS[4]) }
`

/**
 * Reads how far the journal and the store are.
 *
 * KEYS  meta, pending, deletions
 * ARGV  project, the journal's number, the version of the layout
 * Returns { last position assigned, stored, pending events of the project, its deletions }.
 */
export const PROGRESS = `
local head = redis.call('HMGET', KEYS[1], 'ms', 'seq', 'stored', 'id', 'layout')
if head[4] ~= ARGV[2] then return redis.error_reply('GONE this journal does not exist') end
local layout = head[5] or '1'
if layout ~= ARGV[3] and string.match(layout, '^%d+') ~= ARGV[3] then return redis.error_reply('LAYOUT ' .. layout) end
return {
  head[1] .. '-' .. head[2], head[3], redis.call('HGET', KEYS[2], ARGV[1]) or '0', redis.call('HGET', KEYS[3], ARGV[1]) or '0'
}
`

/**
 * Lifts the positions to one of another journal: what is assigned later lies behind it. Says how far the store is.
 *
 * KEYS  stream, meta, pending, deletions
 * ARGV  the position's ms, its seq, project, the journal's number, the version of the layout
 * Returns { last position assigned or lifted to, the first one that waits or "", pending events of the project, its
 * deletions }.
 */
export const LEVEL = `#!lua flags=allow-oom
local stream, meta = KEYS[1], KEYS[2]
local head = redis.call('HMGET', meta, 'ms', 'seq', 'id', 'layout')
if head[3] ~= ARGV[4] then return redis.error_reply('GONE this journal does not exist') end
local layout = head[4] or '1'
if layout ~= ARGV[5] and string.match(layout, '^%d+') ~= ARGV[5] then return redis.error_reply('LAYOUT ' .. layout) end
local ms, seq, to_ms, to_seq = tonumber(head[1]), tonumber(head[2]), tonumber(ARGV[1]), tonumber(ARGV[2])
local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
if to_ms > ms or (to_ms == ms and to_seq > seq) then
  ${NOW}
  if to_ms > now + ${MAX_LIFT_MS} then to_ms, to_seq = now + ${MAX_LIFT_MS}, 0 end
  if to_ms > ms or (to_ms == ms and to_seq > seq) then
    ms, seq = to_ms, to_seq
    local text = string.format('%.0f', ms)
    redis.call('HSET', meta, 'ms', text, 'seq', seq)
    if not first then redis.call('HSET', meta, 'stored', text .. '-' .. string.format('%.0f', seq)) end
  end
end
return {
  string.format('%.0f-%.0f', ms, seq), first and first[1] or '',
  redis.call('HGET', KEYS[3], ARGV[3]) or '0', redis.call('HGET', KEYS[4], ARGV[3]) or '0'
}
`

/**
 * Measures what waits for the store.
 *
 * KEYS  stream, meta, the expiries of the states, what senders hold
 * ARGV  the journal's number, bytes above which a sender is named
 * Returns { entries, bytes, ms since the oldest was accepted or 0, bytes of their states, bytes of the cached states, then
 * each sender that is named, and what it holds }.
 */
export const DEPTH = `#!lua flags=allow-oom
${CACHED_STATES}local head = redis.call('HMGET', KEYS[2], 'bytes', 'id', 'states')
if head[2] ~= ARGV[1] then return redis.error_reply('GONE this journal does not exist') end
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
${NOW}
local waiting = 0
if oldest then
  waiting = math.max(0, now - tonumber(oldest[2][12] or string.match(oldest[1], '^%d+')))
end
local states, cached = tonumber(head[3] or 0), cached_states(KEYS[3], now)
local reply, held = { redis.call('XLEN', KEYS[1]), tonumber(head[1]), waiting, states, cached }, redis.call('HGETALL', KEYS[4])
for i = 1, #held, 2 do
  if tonumber(held[i + 1]) > tonumber(ARGV[2]) then
    reply[#reply + 1] = held[i]
    reply[#reply + 1] = held[i + 1]
  end
end
return reply
`
