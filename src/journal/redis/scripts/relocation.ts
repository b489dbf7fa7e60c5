import { FIELD_BYTES } from './requests.js'
import { REPLACED_STATES, STATES_MARK } from './shared.js'

/**
 * Reads a journal as a change of the layout finds it.
 *
 * KEYS  meta
 * Returns { number or nil, layout or nil, last position assigned, format or nil }.
 */
export const LOOK_AT_LAYOUT = `#!lua flags=no-writes
local head = redis.call('HMGET', KEYS[1], 'id', 'layout', 'ms', 'seq', 'format')
return { head[1], head[2], (head[3] or '0') .. '-' .. (head[4] or '0'), head[5] }
`

/**
 * Says which processes may use the journal, and whether they may write. What they know of the states by their mark ends.
 *
 * KEYS  meta, the mark of the states
 * ARGV  the version of the layout, or "" for the present one; "" or the version that is being made
 * Returns 1, or 0 where there is no journal.
 */
export const SET_LAYOUT = `#!lua flags=allow-oom
if redis.call('HEXISTS', KEYS[1], 'id') == 0 then return 0 end
local layout = ARGV[1]
if layout == '' then layout = string.match(redis.call('HGET', KEYS[1], 'layout') or '1', '^%d+') end
if ARGV[2] ~= '' then layout = layout .. '>' .. ARGV[2] end
redis.call('DEL', KEYS[2])
if layout == '1' then redis.call('HDEL', KEYS[1], 'layout') else redis.call('HSET', KEYS[1], 'layout', layout) end
return 1
`

/**
 * Raises the positions past one, however far ahead of the clock.
 *
 * KEYS  stream, meta
 * ARGV  the position's ms, its seq
 */
export const RAISE = `#!lua flags=allow-oom
local head = redis.call('HMGET', KEYS[2], 'ms', 'seq')
local ms, seq = tonumber(ARGV[1]), tonumber(ARGV[2])
if ms > tonumber(head[1]) or (ms == tonumber(head[1]) and seq > tonumber(head[2])) then
  redis.call('HSET', KEYS[2], 'ms', ARGV[1], 'seq', ARGV[2])
  if redis.call('XLEN', KEYS[1]) == 0 then redis.call('HSET', KEYS[2], 'stored', ARGV[1] .. '-' .. ARGV[2]) end
end
`

/**
 * Reads hashes, byte for byte.
 *
 * KEYS  the hashes
 * Returns for each its fields and values in turn.
 */
export const READ_HASHES = `#!lua flags=no-writes
local hashes = {}
for i = 1, #KEYS do hashes[i] = redis.call('HGETALL', KEYS[i]) end
return hashes
`

/**
 * Remembers requests of another journal. What is here already, and more than reserved, stays.
 *
 * KEYS  meta, for the slot
 * ARGV  for each: its hash, its field and value in one, ms at which it expires
 */
export const ADD_REQUESTS = `
local reserved = string.rep('\\0', 8)
for i = 1, #ARGV, 3 do
  local hash, field = ARGV[i], string.sub(ARGV[i + 1], 1, ${FIELD_BYTES})
  local value, here = string.sub(ARGV[i + 1], ${FIELD_BYTES + 1}), redis.call('HGET', hash, field)
  if not here or (string.sub(here, 1, 8) == reserved and string.sub(value, 1, 8) ~= reserved) then
    redis.call('HSET', hash, field, value)
    redis.call('PEXPIREAT', hash, ARGV[i + 2])
  end
end
`

/**
 * Adds states of another journal that do not expire. One that is here with the same or a later version stays.
 *
 * KEYS  meta
 * ARGV  prefix, then for each: its key, its version, the state
 */
export const ADD_STATES = `
local prefix = ARGV[1]
local expiries = prefix .. ':state-expiries'
${REPLACED_STATES}
local function parts(version)
  local ms, seq = string.match(version, '^(%d+)-(%d+)')
  return tonumber(ms), tonumber(seq)
end
for i = 2, #ARGV, 3 do
  local key, ms, seq = prefix .. ':state:' .. ARGV[i], parts(ARGV[i + 1])
  local here = redis.call('GETRANGE', key, 0, 39)
  local is_newer = here == ''
  if here ~= '' then
    local here_ms, here_seq = parts(here)
    is_newer = ms > here_ms or (ms == here_ms and seq > here_seq)
  end
  if is_newer then
    if here ~= '' then uncount(key) end
    redis.call('SET', key, ARGV[i + 1] .. ' ' .. ARGV[i + 2])
  end
end
`

/**
 * Removes states, and their mark.
 *
 * KEYS  meta
 * ARGV  prefix, then their keys
 */
export const REMOVE_STATES = `#!lua flags=allow-oom
local prefix = ARGV[1]
local expiries = prefix .. ':state-expiries'
${REPLACED_STATES}
redis.call('DEL', prefix .. ':state:${STATES_MARK}')
for i = 2, #ARGV do
  local key = prefix .. ':state:' .. ARGV[i]
  if redis.call('EXISTS', key) == 1 then
    uncount(key)
    redis.call('DEL', key)
  end
end
`
