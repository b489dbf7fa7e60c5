import { MAX_LIFT_MS } from '../../journal.js'
import { CHANGE_INSERT_IDS, INSERT_IDS } from './insert-ids.js'
import { REMEMBER_REQUESTS, REQUESTS } from './requests.js'
import { NOW, REPLACED_STATES, SHARES } from './shared.js'

/**
 * Executes a list of writes.
 *
 * KEYS  stream, meta, pending, producer
 * ARGV  prefix, sequence number of this producer's call, bytes above which writes are refused, idempotency keys that a
 *       sender may have remembered with a secret key, the journal's number, ms for which a reading of an absent state is
 *       valid, the history or "", ms and seq of the greatest position that the caller knows, ms and seq of the greatest
 *       one of other journals, the version of the layout, ids that a sender may have remembered with a key of a page and with a
 *       secret one, idempotency keys with a key of a page, then for each write either
 *         "append", sender, count, bytes, "body" and the body, or "at" and the name of the body's key, the request, then
 *         "events" or "rejected", who sent the ids of its events, these, as INSERT_IDS has them, the number of its events'
 *         own requests, then these
 *       or
 *         "reserve", then the request
 *       or
 *         "commit", kind, state key, expected version, ms at which it was read, state, row, sender, the request, who sent the
 *         ids of its changes, then these
 * Returns the number of entries ever added before, the outcomes joined by commas ("done:<position>", with
 * ":<indexes>" of events that are skipped, "known:<indexes>", "repeated:<position>", with ":<number>" of a journal and
 * ":<index>" as FIND_REQUEST, "mismatch", "limited", "conflict", or "full:all" or "full:own"), the ms of the clock, and in
 * hexadecimal digits the names, separated by commas, of senders whose ids are known for a shorter time from now on, separated by spaces. Indexes are
 * joined by dots. Where the skipped events have requests of their own, ":" and their outcomes follow the indexes, joined by
 * ";", with "/" instead of ":".
 * A call with the sequence number of this producer's last one gets that call's reply again and writes nothing.
 * Errors, with nothing written: FULL; GONE where another journal or none is there; HISTORY where the journal belongs to
 * another history; LAYOUT where the journal has another layout or takes no writes; STALE for a number older than the last; LOST where a body's key is missing.
 */
export const WRITE = `
local stream, meta, pending, producer = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, sequence, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local max_requests = { page = tonumber(ARGV[15]), secret = tonumber(ARGV[4]) }
local reading_ms = tonumber(ARGV[6])

local before = redis.call('GET', producer)
if before then
  local last, reply = string.match(before, '^(%d+) (.*)$')
  if tonumber(last) == sequence then
    -- This is a write, so that a WAIT after it covers the first call as well.
    redis.call('PEXPIRE', producer, 3600000)
    return reply
  end
  if tonumber(last) > sequence then return redis.error_reply('STALE a later call of this producer was executed') end
end

local head = redis.call('HMGET', meta, 'ms', 'seq', 'bytes', 'added', 'id', 'states', 'history', 'layout', 'remembered')
if head[5] ~= ARGV[5] then return redis.error_reply('GONE this journal does not exist') end
if ARGV[7] ~= '' and head[7] ~= ARGV[7] then return redis.error_reply('HISTORY the journal belongs to another history of Redis') end
if (head[8] or '1') ~= ARGV[12] then return redis.error_reply('LAYOUT ' .. (head[8] or '1')) end
local ms, seq, bytes, before_these = tonumber(head[1]), tonumber(head[2]), tonumber(head[3]), tonumber(head[4])
local states, expiries = tonumber(head[6] or 0), prefix .. ':state-expiries'
local used = bytes + states
-- A replica that became the master may lack the last positions of its master, and its clock may be behind.
local floor_ms, floor_seq = tonumber(ARGV[8]), tonumber(ARGV[9])
if floor_ms > ms or (floor_ms == ms and floor_seq > seq) then ms, seq = floor_ms, floor_seq end

${NOW}
-- Those of other journals, whose clocks may be wrong.
if ARGV[10] ~= '0' then
  floor_ms, floor_seq = tonumber(ARGV[10]), tonumber(ARGV[11])
  if floor_ms > now + ${MAX_LIFT_MS} then floor_ms, floor_seq = now + ${MAX_LIFT_MS}, 0 end
  if floor_ms > ms or (floor_ms == ms and floor_seq > seq) then ms, seq = floor_ms, floor_seq end
end
local is_full = used > max_bytes

local function count_repeated(project, count)
  if count > 0 then redis.call('HINCRBY', prefix .. ':repeated', project, count) end
end
local function body_key(name) return prefix .. ':body:' .. name end
local i, lost = 16, false
while ARGV[i] do
  if ARGV[i] == 'append' then
    if ARGV[i + 4] == 'at' then
      if is_full then redis.call('UNLINK', body_key(ARGV[i + 5]))
      elseif redis.call('EXISTS', body_key(ARGV[i + 5])) == 0 then lost = true end
    end
    i = i + 14 + 4 * tonumber(ARGV[i + 13])
  elseif ARGV[i] == 'reserve' then
    i = i + 5
  else
    i = i + 14
  end
end
if is_full then return redis.error_reply('FULL the journal is over its limit') end
if lost then return redis.error_reply('LOST a body is missing') end

local function advance()
  if now > ms then ms, seq = now, 0
  elseif seq < 65535 then seq = seq + 1
  else ms, seq = ms + 1, 0 end
  return string.format('%.0f-%.0f', ms, seq)
end

-- Ordered by position, as a stream requires. The rows of one kind share an entry, whose body is complete only at the
-- end: its position is their version.
local entries, rows = {}, {}

local outcomes = {}
local journal_id = tonumber(head[5])
${REQUESTS}${REMEMBER_REQUESTS}${REPLACED_STATES}${SHARES}
local remembered = math.min(now, tonumber(head[9] or now))
local max_ids = { page = tonumber(ARGV[13]), secret = tonumber(ARGV[14]) }
${INSERT_IDS}${CHANGE_INSERT_IDS}

i = 16
while ARGV[i] do
  local outcome
  if ARGV[i] == 'append' then
    local holder, count, size = ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
    local project, field, value = project_of(holder), ARGV[i + 4], ARGV[i + 5]
    local key, fingerprint, digest, sender = ARGV[i + 6], ARGV[i + 7], ARGV[i + 8], ARGV[i + 9]
    local kind, ids_of, ids, keys = ARGV[i + 10], ARGV[i + 11], ARGV[i + 12], tonumber(ARGV[i + 13])
    local requests = i + 14
    i = requests + 4 * keys
    outcome = refused(key, fingerprint, digest, sender)
    if outcome and string.sub(outcome, 1, 9) == 'repeated:' and kind == 'events' then count_repeated(project, count) end
    outcome = outcome or fullness_for(holder, size)
    -- Its events are not looked up then.
    if outcome then keys = 0 end
    local position, skipped, reasons = nil, {}, {}
    if not outcome and ids ~= '' then skipped = take_ids(ids_of, ids, id_bucket) end
    for index = 0, keys - 1 do
      local at = requests + 4 * index
      local reason = refused(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
      if reason then
        skipped[#skipped + 1] = index
        reasons[#reasons + 1] = string.gsub(reason, ':', '/')
      else
        position = position or advance()
        remember(ARGV[at], ARGV[at + 2], ARGV[at + 3], position, index)
      end
    end
    local skip = #skipped > 0 and table.concat(skipped, '.') or nil
    local why = #reasons > 0 and ':' .. table.concat(reasons, ';') or ''
    count_repeated(project, #skipped)
    count = count - #skipped
    if not outcome and count == 0 then
      outcome = 'known:' .. skip .. why
      -- A reservation: the same body is known again by its ids, and another one is a mismatch.
      remember(key, digest, sender, '0-0')
    end
    if outcome then
      if field == 'at' then redis.call('UNLINK', body_key(value)) end
    else
      position = position or advance()
      entries[#entries + 1] = {
        position = position, kind = kind, shares = { [holder] = size }, count = count, size = size, field = field,
        value = value, skip = skip
      }
      hold(holder, size)
      if field == 'at' then redis.call('PERSIST', body_key(value)) end
      if kind == 'events' then redis.call('HINCRBY', pending, project, count) end
      remember(key, digest, sender, position)
      outcome = 'done:' .. position
      if skip then outcome = outcome .. ':' .. skip .. why end
    end
  elseif ARGV[i] == 'reserve' then
    local key, fingerprint, digest, sender = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
    i = i + 5
    outcome = refused(key, fingerprint, digest, sender)
    if not outcome then
      remember(key, digest, sender, '0-0')
      -- Not the floor: it was never assigned, so after a failover it would look lost.
      outcome = 'done:' .. (#entries > 0 and string.format('%.0f-%.0f', ms, seq) or head[1] .. '-' .. head[2])
    end
  else
    local kind, name, expected, read_at = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4])
    local state, row, holder = ARGV[i + 5], ARGV[i + 6], ARGV[i + 7]
    local project, size = project_of(holder), #state + #row
    local key, fingerprint, digest, sender = ARGV[i + 8], ARGV[i + 9], ARGV[i + 10], ARGV[i + 11]
    local ids_of, ids = ARGV[i + 12], ARGV[i + 13]
    i = i + 14
    outcome = refused(key, fingerprint, digest, sender)
    if not outcome and ids ~= '' then
      local found = find_ids(ids_of, ids)
      if #found > 0 then outcome = 'known:' .. table.concat(found, '.') end
    end
    if not outcome then
      local state_key = prefix .. ':state:' .. name
      local current = redis.call('GETRANGE', state_key, 0, 39)
      local is_expected
      if current ~= '' then is_expected = string.match(current, '^%S+') == expected
      else is_expected = read_at <= now and now - read_at <= reading_ms end
      if not is_expected then outcome = 'conflict' else outcome = fullness_for(holder, size) end
      if not outcome then
        if not rows[kind] then
          rows[kind] = { position = advance(), kind = kind, shares = {}, rows = {} }
          entries[#entries + 1] = rows[kind]
        end
        local entry = rows[kind]
        table.insert(entry.rows, row)
        entry.shares[holder] = (entry.shares[holder] or 0) + size
        hold(holder, size)
        if current ~= '' then uncount(state_key) end
        redis.call('SET', state_key, entry.position .. ' ' .. state)
        states = states + #state
        if ids ~= '' then take_ids(ids_of, ids, id_bucket) end
        remember(key, digest, sender, entry.position)
        outcome = 'done:' .. entry.position
      end
    end
  end
  outcomes[#outcomes + 1] = outcome
end
local received_at = string.format('%.0f', now)
local is_ahead = ms > now
for _, entry in ipairs(entries) do
  local count, size, field, value = entry.count, entry.size, entry.field, entry.value
  if entry.rows then
    field, value = 'body', table.concat(entry.rows, ',')
    count, size = #entry.rows, #value
  end
  local last_fields = {}
  if entry.skip then last_fields = { 'time', received_at, 'skip', entry.skip }
  elseif is_ahead then last_fields = { 'time', received_at } end
  local shares = {}
  for holder, share in pairs(entry.shares) do shares[#shares + 1] = string.format('%.0f ', share) .. holder end
  redis.call('XADD', stream, entry.position, 'kind', entry.kind, 'held', table.concat(shares, '\\n'), 'count', count,
    'bytes', size, field, value, unpack(last_fields))
  bytes = bytes + size
end

count_requests()
record_ids()
record_held()
-- Where nothing waits, everything assigned is stored: a floor that no entry followed is not assigned.
if #entries == 0 then ms, seq = tonumber(head[1]), tonumber(head[2]) end
local added = before_these + #entries
redis.call('HSET', meta, 'ms', string.format('%.0f', ms), 'seq', seq, 'bytes', bytes, 'added', string.format('%.0f', added),
  'states', string.format('%.0f', states))
local reply = head[4] .. ' ' .. table.concat(outcomes, ',') .. ' ' .. received_at
for i, name in ipairs(shortened) do
  reply = reply .. (i == 1 and ' ' or ',') .. string.gsub(name, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
end
redis.call('SET', producer, ARGV[2] .. ' ' .. reply, 'PX', 3600000)
return reply
`
