import { REMEMBER_REQUESTS, REQUESTS } from './request-scripts.js'

/**
 * The steps of the Redis journal, each one atomic. All keys begin with one prefix that holds a hash tag, so that they
 * live in one slot of a cluster; state, request and body keys are made from the prefix inside the scripts.
 *
 * The events of an entry do not pass through Lua, which would hash every byte of them and copy them three times: a third
 * of all that Redis does. They are in a key of their own, written by SET just before the script that refers to it, with
 * a time to live that the script takes away. What no script refers to is gone by itself.
 *
 * Rows and states are opaque here: cjson would keep 14 digits of a number and turn `[]` into `{}`. Positions are
 * texts, `<milliseconds>-<sequence>`, which the stream orders; here they are only compared for equality.
 *
 * A journal that is full has to be drained: what the writer needs is allowed also where Redis is out of memory.
 *
 * An entry of the stream has the fields kind, project, count, bytes, and then either `body` with the rows themselves or
 * `at` with the name of the key that holds the events. Where the clock is behind the entry's position, as after a moment in
 * which it was fast, a last field `time` has the ms of the clock.
 *
 * Redis names the run of its data, its history (master_replid in INFO), and draws another name where a replica becomes a
 * master and where it starts: then something at the end of what was written may be missing. The journal notes the history
 * of which it is, and nothing is written in another one before INITIALISE has lifted the positions.
 *
 * meta is a hash: id, history, ms and seq (the last position given out), bytes (of the entries that are there), added and
 * settled (entries ever), stored (a position), frozen (`<first> <last>`, absent where no block is), states (bytes of the
 * states that are there, or were until they expired).
 *
 * The states that will expire are counted in a hash of its own, by the minute in which they do, since Redis tells nobody
 * when they are gone.
 */

/** Lua for the bytes of states that have expired, and are still counted; `now` is in ms. */
const EXPIRED_STATES = `
local function expired_states(fading, now, is_forgotten)
  local expired, counts = 0, redis.call('HGETALL', fading)
  for i = 1, #counts, 2 do
    if (tonumber(counts[i]) + 1) * 60000 <= now then
      expired = expired + tonumber(counts[i + 1])
      if is_forgotten then redis.call('HDEL', fading, counts[i]) end
    end
  end
  return expired
end
`

/**
 * Carries out a list of writes.
 *
 * KEYS  stream, meta, pending, producer
 * ARGV  prefix, sequence number of this producer's call, bytes above which writes are refused, requests that a project
 *       may have remembered or 0 for any number, the journal's number, ms for which a reading of a state that is not here
 *       is good, the history or "", ms and seq of the greatest position that the caller knows, then for each write either
 *         "append", project, count, bytes, name of the body's key, then the request
 *       or
 *         "commit", kind, state key, expected version, ms at which it was read, state, row, project, then the request
 * Returns the number of entries ever added before, the outcomes joined by commas, "done:<position>", "repeated:<position>",
 * "mismatch", "limited" or "conflict", and the ms of the clock, with a space between the three.
 * A call that has the sequence number of this producer's last one gets that one's answer and writes nothing.
 * Errors, with nothing written: FULL; GONE where this journal is not there; HISTORY where it is of another history; STALE
 * for a number older than the last; LOST where a body's key is not there.
 */
export const WRITE = `${EXPIRED_STATES}
local stream, meta, pending, producer = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, sequence, max_bytes, max_requests = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local reading_ms = tonumber(ARGV[6])

local before = redis.call('GET', producer)
if before then
  local last, answer = string.match(before, '^(%d+) (.*)$')
  if tonumber(last) == sequence then
    -- A write, so that a WAIT behind it is about the first one as well.
    redis.call('PEXPIRE', producer, 3600000)
    return answer
  end
  if tonumber(last) > sequence then return redis.error_reply('STALE a later call of this producer was carried out') end
end

local head = redis.call('HMGET', meta, 'ms', 'seq', 'bytes', 'added', 'id', 'states', 'history')
if head[5] ~= ARGV[5] then return redis.error_reply('GONE the journal is not there') end
if ARGV[7] ~= '' and head[7] ~= ARGV[7] then return redis.error_reply('HISTORY the journal was written to another Redis') end
local ms, seq, bytes, before_these = tonumber(head[1]), tonumber(head[2]), tonumber(head[3]), tonumber(head[4])
local states, fading = tonumber(head[6] or 0), prefix .. ':state-expiries'
-- A replica that became the master knows less than its master gave out, and its clock may be behind.
local floor_ms, floor_seq = tonumber(ARGV[8]), tonumber(ARGV[9])
if floor_ms > ms or (floor_ms == ms and floor_seq > seq) then ms, seq = floor_ms, floor_seq end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local is_full = bytes + states > max_bytes and bytes + states - expired_states(fading, now) > max_bytes

local function body_key(name) return prefix .. ':body:' .. name end
local i, lost = 10, false
while ARGV[i] do
  if ARGV[i] == 'append' then
    if is_full then redis.call('UNLINK', body_key(ARGV[i + 4]))
    elseif redis.call('EXISTS', body_key(ARGV[i + 4])) == 0 then lost = true end
    i = i + 8
  else
    i = i + 11
  end
end
if is_full then return redis.error_reply('FULL the journal is over its limit') end
if lost then return redis.error_reply('LOST a body is not there') end

local function advance()
  if now > ms then ms, seq = now, 0
  elseif seq < 65535 then seq = seq + 1
  else ms, seq = ms + 1, 0 end
  return string.format('%.0f-%.0f', ms, seq)
end

-- In the order of their positions, which a stream takes only rising. The rows of one kind share an entry, whose body
-- is complete only at the end: its position is their version.
local entries, rows = {}, {}

local outcomes = {}
${REQUESTS}${REMEMBER_REQUESTS}
-- A state that is to be replaced.
local function uncount(state_key)
  local size, expires = redis.call('STRLEN', state_key), redis.call('PEXPIRETIME', state_key)
  if expires > 0 then
    -- Not more than there is: one of an earlier version was never counted.
    local minute = string.format('%.0f', math.floor(expires / 60000))
    size = math.min(size, tonumber(redis.call('HGET', fading, minute) or 0))
    redis.call('HINCRBY', fading, minute, -size)
  end
  states = math.max(0, states - size)
end

i = 10
while ARGV[i] do
  local outcome
  if ARGV[i] == 'append' then
    local project, count, size, name = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
    local key, fingerprint, digest = ARGV[i + 5], ARGV[i + 6], ARGV[i + 7]
    i = i + 8
    outcome = known(key, fingerprint, digest) or (is_limited(key, project) and 'limited')
    if outcome then
      redis.call('UNLINK', body_key(name))
    else
      local position = advance()
      entries[#entries + 1] = { position = position, kind = 'events', project = project, count = count, size = size, name = name }
      redis.call('PERSIST', body_key(name))
      redis.call('HINCRBY', pending, project, count)
      remember(key, digest, project, position)
      outcome = 'done:' .. position
    end
  else
    local kind, name, expected, read_at = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4])
    local state, row, project = ARGV[i + 5], ARGV[i + 6], ARGV[i + 7]
    local key, fingerprint, digest = ARGV[i + 8], ARGV[i + 9], ARGV[i + 10]
    i = i + 11
    outcome = known(key, fingerprint, digest) or (is_limited(key, project) and 'limited')
    if not outcome then
      local state_key = prefix .. ':state:' .. name
      local current = redis.call('GETRANGE', state_key, 0, 39)
      local is_expected
      if current ~= '' then is_expected = string.match(current, '^%S+') == expected
      else is_expected = read_at <= now and now - read_at <= reading_ms end
      if not is_expected then
        outcome = 'conflict'
      else
        if not rows[kind] then
          rows[kind] = { position = advance(), kind = kind, project = '', rows = {} }
          entries[#entries + 1] = rows[kind]
        end
        local entry = rows[kind]
        table.insert(entry.rows, row)
        if current ~= '' then uncount(state_key) end
        local text = entry.position .. ' ' .. state
        redis.call('SET', state_key, text)
        states = states + #text
        remember(key, digest, project, entry.position)
        outcome = 'done:' .. entry.position
      end
    end
  end
  outcomes[#outcomes + 1] = outcome
end
local received_at = string.format('%.0f', now)
local time = {}
if ms > now then time = { 'time', received_at } end
for _, entry in ipairs(entries) do
  local count, size, field, value = entry.count, entry.size, 'at', entry.name
  if entry.rows then
    field, value = 'body', table.concat(entry.rows, ',')
    count, size = #entry.rows, #value
  end
  redis.call('XADD', stream, entry.position, 'kind', entry.kind, 'project', entry.project, 'count', count,
    'bytes', size, field, value, unpack(time))
  bytes = bytes + size
end

count_requests()
local added = before_these + #entries
redis.call('HSET', meta, 'ms', string.format('%.0f', ms), 'seq', seq, 'bytes', bytes, 'added', string.format('%.0f', added),
  'states', string.format('%.0f', states))
local answer = head[4] .. ' ' .. table.concat(outcomes, ',') .. ' ' .. received_at
redis.call('SET', producer, ARGV[2] .. ' ' .. answer, 'PX', 3600000)
return answer
`

/**
 * Reads states, as many of the first as fit into the bytes, but one at least.
 *
 * KEYS  meta, for the slot
 * ARGV  prefix, bytes, state keys
 * Returns { ms of the clock, then for each "<version> <state>", or nil where there is none }.
 */
export const READ_STATES = `#!lua flags=no-writes
local time = redis.call('TIME')
local answer = { string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)) }
local bytes, max_bytes = 0, tonumber(ARGV[2])
for i = 3, #ARGV do
  local key = ARGV[1] .. ':state:' .. ARGV[i]
  bytes = bytes + redis.call('STRLEN', key)
  if bytes > max_bytes and i > 3 then break end
  answer[i - 1] = redis.call('GET', key)
end
return answer
`

/**
 * Takes the writer's lease and freezes the next block, or returns the frozen one.
 *
 * KEYS  stream, meta, lease
 * ARGV  writer, ms that the lease holds, bytes after which a block ends, entries that a block has at most, the journal's
 *       number, and, where the writer has a run of entries itself: how many were ever added before them, "<first> <last>"
 * Returns nil where another writer holds the lease or nothing waits, else { "<first> <last>", 1 if it was frozen before or
 * else 0, entries as XRANGE has them }; the entries are left out where the block is the writer's own run, which it is if that is next to be stored.
 */
export const CLAIM = `#!lua flags=allow-oom
local stream, meta, lease = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HGET', meta, 'id') ~= ARGV[5] then return redis.error_reply('GONE the journal is not there') end
local holder = redis.call('GET', lease)
if holder and holder ~= ARGV[1] then return nil end
redis.call('SET', lease, ARGV[1], 'PX', ARGV[2])

local head = redis.call('HMGET', meta, 'frozen', 'stored', 'settled')
if head[1] then
  local first, last = string.match(head[1], '^(%S+) (%S+)$')
  return { head[1], 1, redis.call('XRANGE', stream, first, last) }
end
if ARGV[6] and ARGV[6] == head[3] then
  local first, last = string.match(ARGV[7], '^(%S+) (%S+)$')
  local oldest = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  -- The numbers may be the same where the entries are not, in a journal that went back.
  if oldest and oldest[1] == first and redis.call('XRANGE', stream, last, last)[1] then
    redis.call('HSET', meta, 'frozen', ARGV[7])
    return { ARGV[7], 0 }
  end
end

-- As many at a time as fit if none is larger than those before, and one to begin with.
local max_bytes, max_entries, largest, count = tonumber(ARGV[3]), tonumber(ARGV[4]), 1, 1
local entries, bytes, from = {}, 0, '(' .. head[2]
while bytes < max_bytes and #entries < max_entries do
  local some = redis.call('XRANGE', stream, from, '+', 'COUNT', count)
  for _, entry in ipairs(some) do
    local size = tonumber(entry[2][8])
    if bytes >= max_bytes or #entries >= max_entries then break end
    entries[#entries + 1] = entry
    bytes = bytes + size
    if size > largest then largest = size end
  end
  if #some < count then break end
  from = '(' .. entries[#entries][1]
  count = math.max(1, math.min(200, math.floor((max_bytes - bytes) / largest)))
end
if #entries == 0 then return nil end
local frozen = entries[1][1] .. ' ' .. entries[#entries][1]
redis.call('HSET', meta, 'frozen', frozen)
return { frozen, 0, entries }
`

/**
 * Holds the writer's lease a while longer.
 *
 * KEYS  lease
 * ARGV  writer, ms
 * Returns 1, or 0 where it holds none.
 */
export const RENEW = `#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`

/**
 * Gives the writer's lease back.
 *
 * KEYS  lease
 * ARGV  writer
 * Returns 1, or 0 where it holds none.
 */
export const RELEASE = `#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
`

/**
 * Ends the frozen block earlier.
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
 * Forgets a block that the store has, and the bodies of its entries.
 *
 * KEYS  stream, meta, pending
 * ARGV  prefix, the frozen block "<first> <last>", the position after its last, ms to keep its states,
 *       number of projects, then (project, events) for each, then (state key, version) for each state
 * Returns 1, or 0 where another writer has moved on.
 */
export const ACKNOWLEDGE = `#!lua flags=allow-oom
${EXPIRED_STATES}
local stream, meta, pending = KEYS[1], KEYS[2], KEYS[3]
local prefix, frozen = ARGV[1], ARGV[2]
if redis.call('HGET', meta, 'frozen') ~= frozen then return 0 end
local first, last = string.match(frozen, '^(%S+) (%S+)$')
local bytes = 0
for _, entry in ipairs(redis.call('XRANGE', stream, first, last)) do
  local fields = entry[2]
  bytes = bytes + tonumber(fields[8])
  if fields[9] == 'at' then redis.call('UNLINK', prefix .. ':body:' .. fields[10]) end
end
redis.call('HDEL', meta, 'frozen')
local settled = redis.call('XTRIM', stream, 'MINID', ARGV[3])
-- Where nothing is left, up to all that was given out: after OUTRANK that is later than any entry.
if redis.call('XLEN', stream) == 0 then
  local head = redis.call('HMGET', meta, 'ms', 'seq')
  last = head[1] .. '-' .. head[2]
end
redis.call('HSET', meta, 'stored', last)
redis.call('HINCRBY', meta, 'settled', settled)
redis.call('HINCRBY', meta, 'bytes', -bytes)
local time, fading = redis.call('TIME'), prefix .. ':state-expiries'
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local i = 6
for _ = 1, tonumber(ARGV[5]) do
  if redis.call('HINCRBY', pending, ARGV[i], -tonumber(ARGV[i + 1])) <= 0 then redis.call('HDEL', pending, ARGV[i]) end
  i = i + 2
end
local expires, faded = now + tonumber(ARGV[4]), 0
while ARGV[i] do
  local state_key = prefix .. ':state:' .. ARGV[i]
  if string.match(redis.call('GETRANGE', state_key, 0, 39), '^%S+') == ARGV[i + 1]
    and redis.call('PEXPIRETIME', state_key) == -1 then
    redis.call('PEXPIREAT', state_key, string.format('%.0f', expires))
    faded = faded + redis.call('STRLEN', state_key)
  end
  i = i + 2
end
if faded > 0 then redis.call('HINCRBY', fading, string.format('%.0f', math.floor(expires / 60000)), faded) end
local states = tonumber(redis.call('HGET', meta, 'states') or 0) - expired_states(fading, now, true)
if redis.call('XLEN', stream) == 0 then
  -- All that is still counted expires, so what an earlier version of the service miscounted beside this one is forgotten.
  states = 0
  for _, faded in ipairs(redis.call('HVALS', fading)) do states = states + tonumber(faded) end
end
redis.call('HSET', meta, 'states', string.format('%.0f', math.max(0, states)))
redis.call('PUBLISH', prefix .. ':stored', last)
return 1
`

/**
 * KEYS  meta, pending, deletions
 * ARGV  project, the journal's number
 * Returns { last position given out, stored, pending events of the project, its deletions }.
 */
export const PROGRESS = `
local head = redis.call('HMGET', KEYS[1], 'ms', 'seq', 'stored', 'id')
if head[4] ~= ARGV[2] then return redis.error_reply('GONE the journal is not there') end
return {
  head[1] .. '-' .. head[2], head[3], redis.call('HGET', KEYS[2], ARGV[1]) or '0', redis.call('HGET', KEYS[3], ARGV[1]) or '0'
}
`

/**
 * Goes on behind a position, and takes everything up to it as stored where nothing waits.
 *
 * KEYS  stream, meta, the expiries of states, which are then to be deleted
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
redis.call('DEL', KEYS[3])
return 1
`

/**
 * What waits.
 *
 * KEYS  stream, meta, the expiries of states
 * ARGV  the journal's number
 * Returns { entries, bytes, ms since the oldest was accepted, or 0, bytes of the states }.
 */
export const DEPTH = `#!lua flags=allow-oom
${EXPIRED_STATES}
local head = redis.call('HMGET', KEYS[2], 'bytes', 'id', 'states')
if head[2] ~= ARGV[1] then return redis.error_reply('GONE the journal is not there') end
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local waiting = 0
if oldest then
  waiting = math.max(0, now - tonumber(oldest[2][12] or string.match(oldest[1], '^%d+')))
end
local states = math.max(0, tonumber(head[3] or 0) - expired_states(KEYS[3], now))
return { redis.call('XLEN', KEYS[1]), tonumber(head[1]), waiting, states }
`

/**
 * Tells of which history Redis is and of which the journal is.
 *
 * KEYS  meta
 * Returns { the journal's number or "", its history or "", that of Redis or "" where INFO is forbidden, what is stored or "" }.
 * Errors: READONLY on a replica, whose history is its master's until it becomes one itself.
 */
export const LOOK = `#!lua flags=no-writes
local info = redis.pcall('INFO', 'replication')
if type(info) ~= 'string' then info = '' end
if string.match(info, 'role:(%a+)') == 'slave' then return redis.error_reply('READONLY this Redis is a replica') end
local head = redis.call('HMGET', KEYS[1], 'id', 'history', 'stored')
return { head[1] or '', head[2] or '', string.match(info, 'master_replid:(%x+)') or '', head[3] or '' }
`

/**
 * Makes an empty journal where there is none, or goes on with one of another history: lifts the positions, so that none of
 * those which are missing here is given out again.
 *
 * KEYS  meta, stream
 * ARGV  a number to name a new journal, the history, how many ms the clock of the Redis before may have been ahead, ms and
 *       seq of the greatest position that the caller knows
 * Returns the journal's number.
 */
export const INITIALISE = `#!lua flags=allow-oom
local meta, stream, history = KEYS[1], KEYS[2], ARGV[2]
local head = redis.call('HMGET', meta, 'id', 'history', 'ms', 'seq')
if head[1] and head[2] == history then return head[1] end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ms, seq = tonumber(head[3] or 0), tonumber(head[4] or 0)
local function lift(to_ms, to_seq)
  if to_ms > ms or (to_ms == ms and to_seq > seq) then ms, seq = to_ms, to_seq end
end
lift(tonumber(ARGV[4]), tonumber(ARGV[5]))
-- What is missing here took less than a second to come about, where the positions were ahead of the clock already.
if ms > 0 then lift(ms + 1000, 0) end
lift(now + tonumber(ARGV[3]), 0)

if not head[1] then redis.call('HSET', meta, 'id', ARGV[1], 'bytes', 0, 'added', 0, 'settled', 0, 'stored', '0-0') end
local text = string.format('%.0f', ms)
redis.call('HSET', meta, 'history', history, 'ms', text, 'seq', seq)
-- Where nothing waits, all that was given out is in the store or lost.
if redis.call('XLEN', stream) == 0 then redis.call('HSET', meta, 'stored', text .. '-' .. seq) end
return head[1] or ARGV[1]
`
