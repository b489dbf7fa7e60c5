import { EXPIRED_STATES, NOW } from './shared.js'

/**
 * Takes the writer's lease and freezes the next block, or returns the frozen one. It leaves reading entries to the writer.
 *
 * Of several lanes, each has writers that prefer it, at `home` there, and others, `guest`s, which make room: a guest neither
 * takes the lease nor keeps it while one at home has asked for it within the time of a lease.
 *
 * KEYS  stream, meta, lease, who at home asks for the lease
 * ARGV  writer, ms of the lease, the journal's number, the version of the layout, "home", "guest" or "" for the only lane,
 *       and, where the writer has read a run of entries, or holds one in memory: how many were ever added before them,
 *       "<first> <last>"
 * Returns nil where another writer holds the lease or may take it, or nothing waits, else { "<first> <last>", 1 if the block
 * was frozen before or 0 if it is the writer's run }, or, where none is frozen and the run is not next, { "", 0, the stored
 * position, how many entries were ever added before what is next }.
 */
export const CLAIM = `#!lua flags=allow-oom
local stream, meta, lease = KEYS[1], KEYS[2], KEYS[3]
local guard = redis.call('HMGET', meta, 'id', 'layout')
if guard[1] ~= ARGV[3] then return redis.error_reply('GONE this journal does not exist') end
local layout = guard[2] or '1'
if layout ~= ARGV[4] and string.match(layout, '^%d+') ~= ARGV[4] then return redis.error_reply('LAYOUT ' .. layout) end
local holder = redis.call('GET', lease)
if ARGV[5] == 'home' and holder and holder ~= ARGV[1] then
  redis.call('SET', KEYS[4], ARGV[1], 'PX', ARGV[2])
elseif ARGV[5] == 'guest' and redis.call('EXISTS', KEYS[4]) == 1 then
  if holder == ARGV[1] then redis.call('DEL', lease) end
  return nil
end
if holder and holder ~= ARGV[1] then return nil end
redis.call('SET', lease, ARGV[1], 'PX', ARGV[2])

local head = redis.call('HMGET', meta, 'frozen', 'stored', 'settled')
if head[1] then return { head[1], 1 } end
local oldest = redis.call('XRANGE', stream, '(' .. head[2], '+', 'COUNT', 1)[1]
if not oldest then return nil end
local before = head[3] or '0'
if ARGV[6] == before then
  local first, last = string.match(ARGV[7], '^(%S+) (%S+)$')
  -- In a journal that lost its end, the counts may match where the entries do not.
  if oldest[1] == first and redis.call('XRANGE', stream, last, last)[1] then
    redis.call('HSET', meta, 'frozen', ARGV[7])
    return { ARGV[7], 0 }
  end
end
return { '', 0, head[2], before }
`

/**
 * Renews the writer's lease.
 *
 * KEYS  lease
 * ARGV  writer, ms
 * Returns 1, or 0 where the writer does not hold it.
 */
export const RENEW = `#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`

/**
 * Releases the writer's lease.
 *
 * KEYS  lease
 * ARGV  writer
 * Returns 1, or 0 where the writer does not hold it.
 */
export const RELEASE = `#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
`

/**
 * Shrinks the frozen block.
 *
 * KEYS  meta
 * ARGV  the frozen block, what it becomes (both "<first> <last>")
 * Returns 1, or 0 where another writer has moved on.
 */
export const SHRINK = `#!lua flags=allow-oom
if redis.call('HGET', KEYS[1], 'frozen') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'frozen', ARGV[2])
return 1
`

/**
 * Deletes a block that the store has, with the bodies of its entries, counts its events as acknowledged, and lets its states
 * expire. It does not read the entries, which would take some 2 µs for each: the writer has them.
 *
 * KEYS  stream, meta, pending
 * ARGV  prefix, the frozen block "<first> <last>", the position after its last, ms until its states expire, bytes of its
 *       bodies, number of bodies that have keys, then their names, number of projects, then (project, events) for each,
 *       then (state key, version) for each state
 * Returns 1, or 0 where another writer has moved on.
 */
export const ACKNOWLEDGE = `#!lua flags=allow-oom
${EXPIRED_STATES}local stream, meta, pending = KEYS[1], KEYS[2], KEYS[3]
local prefix, frozen = ARGV[1], ARGV[2]
if redis.call('HGET', meta, 'frozen') ~= frozen then return 0 end
local last = string.match(frozen, '%S+$')
local projects = 7 + tonumber(ARGV[6])
for i = 7, projects - 1 do redis.call('UNLINK', prefix .. ':body:' .. ARGV[i]) end
redis.call('HDEL', meta, 'frozen')
local settled = redis.call('XTRIM', stream, 'MINID', ARGV[3])
-- Subtracted from 0, because the negation of no bytes is "-0", which is no integer to Redis.
local bytes = redis.call('HINCRBY', meta, 'bytes', 0 - tonumber(ARGV[5]))
-- Where nothing is left, everything assigned is stored: after ADVANCE_PAST that is later than any entry.
if redis.call('XLEN', stream) == 0 then
  local head = redis.call('HMGET', meta, 'ms', 'seq')
  last = head[1] .. '-' .. head[2]
  -- A body that somebody deleted was counted in full.
  if bytes ~= 0 then redis.call('HSET', meta, 'bytes', 0) end
end
redis.call('HSET', meta, 'stored', last)
redis.call('HINCRBY', meta, 'settled', settled)
${NOW}
local expiries = prefix .. ':state-expiries'
local i = projects + 1
for _ = 1, tonumber(ARGV[projects]) do
  if redis.call('HINCRBY', pending, ARGV[i], -tonumber(ARGV[i + 1])) <= 0 then redis.call('HDEL', pending, ARGV[i]) end
  redis.call('HINCRBY', prefix .. ':acknowledged', ARGV[i], ARGV[i + 1])
  i = i + 2
end
local expires, expiring = now + tonumber(ARGV[4]), 0
while ARGV[i] do
  local state_key = prefix .. ':state:' .. ARGV[i]
  if string.match(redis.call('GETRANGE', state_key, 0, 39), '^%S+') == ARGV[i + 1]
    and redis.call('PEXPIRETIME', state_key) == -1 then
    redis.call('PEXPIREAT', state_key, string.format('%.0f', expires))
    expiring = expiring + redis.call('STRLEN', state_key)
  end
  i = i + 2
end
if expiring > 0 then
  redis.call('HINCRBY', expiries, string.format('%.0f', math.floor(expires / 60000)), expiring)
end
local states = tonumber(redis.call('HGET', meta, 'states') or 0) - expired_states(expiries, now, true)
if redis.call('XLEN', stream) == 0 then
  -- Now every state expires, so their sum corrects what an earlier version of the service, beside this one, miscounted.
  states = 0
  for _, bytes in ipairs(redis.call('HVALS', expiries)) do states = states + tonumber(bytes) end
end
redis.call('HSET', meta, 'states', string.format('%.0f', math.max(0, states)))
redis.call('PUBLISH', prefix .. ':stored', last)
return 1
`
