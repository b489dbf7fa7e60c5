import { EXPIRED_STATES, NOW } from './shared.js'

/**
 * Reads states: as many of the first keys as fit into the bytes, at least one.
 *
 * KEYS  meta, for the slot
 * ARGV  prefix, bytes, state keys
 * Returns { ms of the clock, then for each key "<version> <state>", or nil where it has none }.
 */
export const READ_STATES = `#!lua flags=no-writes
${NOW}
local reply = { string.format('%.0f', now) }
local bytes, max_bytes = 0, tonumber(ARGV[2])
for i = 3, #ARGV do
  local key = ARGV[1] .. ':state:' .. ARGV[i]
  bytes = bytes + redis.call('STRLEN', key)
  if bytes > max_bytes and i > 3 then break end
  reply[i - 1] = redis.call('GET', key)
end
return reply
`

/**
 * Reads how far the journal and the store are.
 *
 * KEYS  meta, pending, deletions
 * ARGV  project, the journal's number
 * Returns { last position assigned, stored, pending events of the project, its deletions }.
 */
export const PROGRESS = `
local head = redis.call('HMGET', KEYS[1], 'ms', 'seq', 'stored', 'id')
if head[4] ~= ARGV[2] then return redis.error_reply('GONE this journal does not exist') end
return {
  head[1] .. '-' .. head[2], head[3], redis.call('HGET', KEYS[2], ARGV[1]) or '0', redis.call('HGET', KEYS[3], ARGV[1]) or '0'
}
`

/**
 * Measures what waits for the store.
 *
 * KEYS  stream, meta, the expiries of the states
 * ARGV  the journal's number
 * Returns { entries, bytes, ms since the oldest was accepted or 0, bytes of the states }.
 */
export const DEPTH = `#!lua flags=allow-oom
${EXPIRED_STATES}local head = redis.call('HMGET', KEYS[2], 'bytes', 'id', 'states')
if head[2] ~= ARGV[1] then return redis.error_reply('GONE this journal does not exist') end
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
${NOW}
local waiting = 0
if oldest then
  waiting = math.max(0, now - tonumber(oldest[2][12] or string.match(oldest[1], '^%d+')))
end
local states = math.max(0, tonumber(head[3] or 0) - expired_states(KEYS[3], now))
return { redis.call('XLEN', KEYS[1]), tonumber(head[1]), waiting, states }
`
