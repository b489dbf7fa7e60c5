import { CACHED_STATES, NOW } from './shared.js'

/** An acknowledgement cuts up to this many states, and two for each that it adds. */
const MIN_CUT = 100

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
 * expire. It does not read the entries, which would take some 2 µs for each: the writer has them. The states that were stored
 * first lose their text while all together take too much.
 *
 * KEYS  stream, meta, pending
 * ARGV  prefix, the frozen block "<first> <last>", the position after its last, ms until its states expire, bytes of its
 *       bodies, bytes of its states, bytes that the cached states may take, number of bodies that have keys, then their
 *       names, number of projects, then (project, events) for each, number of senders, then (sender, bytes held) for each,
 *       then (state key, version) for each state
 * Returns 1, or 0 where another writer has moved on.
 */
export const ACKNOWLEDGE = `#!lua flags=allow-oom
${CACHED_STATES}local stream, meta, pending = KEYS[1], KEYS[2], KEYS[3]
local prefix, frozen = ARGV[1], ARGV[2]
if redis.call('HGET', meta, 'frozen') ~= frozen then return 0 end
local last = string.match(frozen, '%S+$')
local i = 9
for _ = 1, tonumber(ARGV[8]) do
  redis.call('UNLINK', prefix .. ':body:' .. ARGV[i])
  i = i + 1
end
redis.call('HDEL', meta, 'frozen')
local settled = redis.call('XTRIM', stream, 'MINID', ARGV[3])
-- Subtracted from 0, because the negation of no bytes is "-0", which is no integer to Redis.
local bytes = redis.call('HINCRBY', meta, 'bytes', 0 - tonumber(ARGV[5]))
local states = redis.call('HINCRBY', meta, 'states', 0 - tonumber(ARGV[6]))
local function subtract_from(hash)
  local count = tonumber(ARGV[i])
  i = i + 1
  for _ = 1, count do
    if redis.call('HINCRBY', hash, ARGV[i], 0 - tonumber(ARGV[i + 1])) <= 0 then redis.call('HDEL', hash, ARGV[i]) end
    i = i + 2
  end
end
for at = i + 1, i + 2 * tonumber(ARGV[i]), 2 do redis.call('HINCRBY', prefix .. ':acknowledged', ARGV[at], ARGV[at + 1]) end
subtract_from(pending)
subtract_from(prefix .. ':held')
-- Where nothing is left, everything assigned is stored: after ADVANCE_PAST that is later than any entry.
if redis.call('XLEN', stream) == 0 then
  local head = redis.call('HMGET', meta, 'ms', 'seq')
  last = head[1] .. '-' .. head[2]
  -- A body that somebody deleted was counted in full.
  if bytes ~= 0 or states ~= 0 then redis.call('HSET', meta, 'bytes', 0, 'states', 0) end
  redis.call('DEL', prefix .. ':held')
end
redis.call('HSET', meta, 'stored', last)
redis.call('HINCRBY', meta, 'settled', settled)
${NOW}
local expiries, cache = prefix .. ':state-expiries', prefix .. ':state-cache'
local expires = now + tonumber(ARGV[4])
local minute, expiring, order = string.format('%.0f', math.floor(expires / 60000)), 0, {}
while ARGV[i] do
  local name, version = ARGV[i], ARGV[i + 1]
  local state_key = prefix .. ':state:' .. name
  if string.match(redis.call('GETRANGE', state_key, 0, 39), '^%S+') == version
    and redis.call('PEXPIRETIME', state_key) == -1 then
    redis.call('PEXPIREAT', state_key, string.format('%.0f', expires))
    local size = redis.call('STRLEN', state_key)
    expiring = expiring + size
    -- A tombstone is no longer than a version alone, and the store may remove its row.
    if size > #version + 1 then order[#order + 1] = minute .. ' ' .. version .. ' ' .. name end
  end
  i = i + 2
end
if expiring > 0 then redis.call('HINCRBY', expiries, minute, expiring) end
for at = 1, #order, 1000 do redis.call('RPUSH', cache, unpack(order, at, math.min(at + 999, #order))) end
if #order > 0 then redis.call('PEXPIREAT', cache, string.format('%.0f', expires + 60000)) end

local cached, max_cached = cached_states(expiries, now), tonumber(ARGV[7])
local done = 0
for _, record in ipairs(redis.call('LRANGE', cache, 0, 2 * #order + ${MIN_CUT} - 1)) do
  local of, version, name = string.match(record, '^(%S+) (%S+) (%S+)$')
  local is_counted = (tonumber(of) + 1) * 60000 > now
  if is_counted and cached <= max_cached then break end
  local state_key = prefix .. ':state:' .. name
  if is_counted and string.match(redis.call('GETRANGE', state_key, 0, 39), '^%S+') == version then
    local cut = redis.call('STRLEN', state_key) - #version
    redis.call('SET', state_key, version, 'KEEPTTL')
    redis.call('HINCRBY', expiries, of, 0 - cut)
    cached = cached - cut
  end
  done = done + 1
end
if done > 0 then redis.call('LTRIM', cache, done, -1) end
redis.call('PUBLISH', prefix .. ':stored', last)
return 1
`
