-- Executes a list of writes.
--
-- Returns, separated by spaces: the number of entries ever added before; the outcomes, joined by commas; the ms of
-- the clock; and, if there are any, the senders whose ids are known for a shorter time from now on, in hexadecimal
-- digits, joined by commas. The outcomes are
--   done:<position>[:<indexes>[:<reasons>]]   the indexes are those of events that are skipped
--   known:<indexes>[:<reasons>]               none of it is new
--   repeated:<position>[:<id of a journal>[:<index>]], mismatch   as find-request.lua returns them
--   limited                                   the sender has reached its maximum of idempotency keys
--   conflict, fenced, full:all, full:own
-- Indexes are joined by dots. If the skipped events have separate requests, the reasons are the outcomes of these,
-- joined by ";", with "/" instead of ":".
--
-- A call with the sequence number of this producer's last one gets that call's reply again and writes nothing.
-- Errors, with nothing written: FULL; GONE if another journal or none is there; HISTORY if the journal belongs to
-- another history; LAYOUT if the journal has another layout or takes no writes; STALE for a number older than the
-- last; LOST if a body's key is missing.
local meta, pending, producer = KEYS.meta, KEYS.pending, KEYS.producer
local prefix, sequence, max_bytes = ARGV.prefix, tonumber(ARGV.sequence), tonumber(ARGV.maxBytes)
local max_requests = { page = tonumber(ARGV.maxPageRequests), secret = tonumber(ARGV.maxSecretRequests) }
local max_ids = { page = tonumber(ARGV.maxPageIds), secret = tonumber(ARGV.maxSecretIds) }

local previous = redis.call('GET', producer)
if previous then
  local number, reply = string.match(previous, '^(%d+) (.*)$')
  if tonumber(number) == sequence then
    -- This is a write, so that a WAIT after it covers the first call as well.
    redis.call('PEXPIRE', producer, 3600000)
    return reply
  end
  if tonumber(number) > sequence then return redis.error_reply('STALE a later call of this producer was executed') end
end

local last_ms, last_seq, id, history, layout, bytes, states, added_before, remembered, request_buckets =
  unpack(redis.call('HMGET', meta, 'ms', 'seq', 'id', 'history', 'layout', 'bytes', 'states', 'added', 'remembered',
    'request-buckets'))
if id ~= ARGV.journalId then return redis.error_reply('GONE this journal does not exist') end
if ARGV.history ~= '' and history ~= ARGV.history then
  return redis.error_reply('HISTORY the journal belongs to another history of Redis')
end
if layout ~= ARGV.layout then return redis.error_reply('LAYOUT ' .. layout) end
bytes, states = tonumber(bytes), tonumber(states)
local used = bytes + states
local journal_id = tonumber(id)

--- include shared/now
local ms, seq = tonumber(last_ms), tonumber(last_seq)
-- A replica that became the master may lack the last positions of its master, and its clock may be behind.
local floor_ms, floor_seq = tonumber(ARGV.floorMs), tonumber(ARGV.floorSeq)
if floor_ms > ms or (floor_ms == ms and floor_seq > seq) then ms, seq = floor_ms, floor_seq end
-- The clocks of other journals may be wrong.
floor_ms, floor_seq = tonumber(ARGV.foreignMs), tonumber(ARGV.foreignSeq)
if floor_ms > now + MAX_LIFT_MS then floor_ms, floor_seq = now + MAX_LIFT_MS, 0 end
if floor_ms > ms or (floor_ms == ms and floor_seq > seq) then ms, seq = floor_ms, floor_seq end
local function advance()
  if now > ms then ms, seq = now, 0
  elseif seq < 65535 then seq = seq + 1
  else ms, seq = ms + 1, 0 end
  return string.format('%.0f-%.0f', ms, seq)
end

local function body_key(name) return prefix .. ':body:' .. name end

-- The version of a state; nil if there is none here.
local function version_of(name)
  return string.match(redis.call('GETRANGE', prefix .. ':state:' .. name, 0, 39), '^%S+')
end

-- Whether a state is still what was read: a version, or "" for none.
local function is_expected(version, expected, read_at)
  if version then return version == expected end
  return read_at <= now and now - read_at <= READING_MEMORY_MS
end

local is_full, is_lost = used > max_bytes, false
local i = ARGS.length + 1
while ARGV[i] do
  if ARGV[i] == 'append' then
    if ARGV[i + APPEND.field] == 'at' then
      local key = body_key(ARGV[i + APPEND.body])
      if is_full then redis.call('UNLINK', key)
      elseif redis.call('EXISTS', key) == 0 then is_lost = true end
    end
    i = i + APPEND.length + REQUEST.length * tonumber(ARGV[i + APPEND.requests])
  elseif ARGV[i] == 'reserve' then i = i + RESERVE.length
  else i = i + COMMIT.length end
end
if is_full then return redis.error_reply('FULL the journal is over its limit') end
if is_lost then return redis.error_reply('LOST a body is missing') end

remembered = math.min(now, tonumber(remembered or now))
--- include shared/requests
--- include shared/remember-requests
--- include shared/uncount-state
--- include shared/shares
--- include shared/insert-ids
--- include shared/change-insert-ids

-- Ordered by position, as a stream requires. The rows of one kind share an entry, whose body is complete only at the
-- end: its position is their version.
local entries, rows = {}, {}

local function is_repeated(outcome) return string.sub(outcome, 1, 9) == 'repeated:' end

i = ARGS.length + 1
local outcomes = {}
while ARGV[i] do
  local outcome
  if ARGV[i] == 'append' then
    local kind, sender = ARGV[i + APPEND.kind], ARGV[i + APPEND.sender]
    local count, size = tonumber(ARGV[i + APPEND.count]), tonumber(ARGV[i + APPEND.size])
    local field, body = ARGV[i + APPEND.field], ARGV[i + APPEND.body]
    local shard, digest, ids = ARGV[i + APPEND.shard], ARGV[i + APPEND.digest], ARGV[i + APPEND.ids]
    local project, request_count = project_of(sender), tonumber(ARGV[i + APPEND.requests])
    i = i + APPEND.length
    local after = i + REQUEST.length * request_count
    outcome = refused(shard, digest, sender)
    local position, skipped, reasons, repeated = nil, {}, {}, 0
    if outcome and is_repeated(outcome) then repeated = count end
    outcome = outcome or fullness_for(sender, size)
    if not outcome then
      if ids ~= '' then skipped = take_ids(sender, ids, id_bucket) end
      repeated = #skipped
      for index = 0, request_count - 1 do
        local event_shard, event_digest = ARGV[i + REQUEST.shard], ARGV[i + REQUEST.digest]
        local reason = refused(event_shard, event_digest, sender)
        if reason then
          skipped[#skipped + 1] = index
          if is_repeated(reason) then repeated = repeated + 1 end
          reasons[#reasons + 1] = string.gsub(reason, ':', '/')
        else
          position = position or advance()
          remember(event_shard, event_digest, sender, position, index)
        end
        i = i + REQUEST.length
      end
    end
    i = after
    local skip = #skipped > 0 and table.concat(skipped, '.') or nil
    local why = #reasons > 0 and ':' .. table.concat(reasons, ';') or ''
    if repeated > 0 and kind == 'events' then redis.call('HINCRBY', prefix .. ':repeated', project, repeated) end
    count = count - #skipped
    if not outcome and count == 0 then
      outcome = 'known:' .. skip .. why
      -- Only reserve the key: the same body is recognised by its ids again, and another body is a mismatch.
      remember(shard, digest, sender, '0-0')
    end
    if outcome then
      if field == 'at' then redis.call('UNLINK', body_key(body)) end
    else
      position = position or advance()
      entries[#entries + 1] = {
        position = position, kind = kind, shares = { [sender] = size }, count = count, size = size, field = field,
        body = body, skip = skip
      }
      hold(sender, size)
      if kind == 'events' then redis.call('HINCRBY', pending, project, count) end
      remember(shard, digest, sender, position)
      outcome = 'done:' .. position
      if skip then outcome = outcome .. ':' .. skip .. why end
    end
  elseif ARGV[i] == 'reserve' then
    local shard, digest, sender = ARGV[i + RESERVE.shard], ARGV[i + RESERVE.digest], ARGV[i + RESERVE.sender]
    i = i + RESERVE.length
    outcome = refused(shard, digest, sender)
    if not outcome then
      remember(shard, digest, sender, '0-0')
      -- Do not return the floor: it was never assigned, so after a failover it would look lost.
      outcome = 'done:' .. (#entries > 0 and string.format('%.0f-%.0f', ms, seq) or last_ms .. '-' .. last_seq)
    end
  else
    local kind, name, expected = ARGV[i + COMMIT.kind], ARGV[i + COMMIT.stateKey], ARGV[i + COMMIT.expected]
    local read_at, state, row = tonumber(ARGV[i + COMMIT.readAt]), ARGV[i + COMMIT.state], ARGV[i + COMMIT.row]
    local sender, size = ARGV[i + COMMIT.sender], #state + #row
    local shard, digest, ids = ARGV[i + COMMIT.shard], ARGV[i + COMMIT.digest], ARGV[i + COMMIT.ids]
    local fence, fence_version = ARGV[i + COMMIT.fence], ARGV[i + COMMIT.fenceVersion]
    local fence_read_at = tonumber(ARGV[i + COMMIT.fenceReadAt])
    i = i + COMMIT.length
    outcome = refused(shard, digest, sender)
    if not outcome and ids ~= '' then
      local found = find_ids(sender, ids)
      if #found > 0 then outcome = 'known:' .. table.concat(found, '.') end
    end
    if not outcome and fence ~= '' and not is_expected(version_of(fence), fence_version, fence_read_at) then
      outcome = 'fenced'
    end
    if not outcome then
      local state_key = prefix .. ':state:' .. name
      local current = version_of(name)
      if is_expected(current, expected, read_at) then outcome = fullness_for(sender, size) else outcome = 'conflict' end
      if not outcome then
        if not rows[kind] then
          rows[kind] = { position = advance(), kind = kind, shares = {}, rows = {} }
          entries[#entries + 1] = rows[kind]
        end
        local entry = rows[kind]
        table.insert(entry.rows, row)
        entry.shares[sender] = (entry.shares[sender] or 0) + size
        hold(sender, size)
        if current then uncount_state(state_key) end
        redis.call('SET', state_key, entry.position .. ' ' .. state)
        states = states + #state
        if ids ~= '' then take_ids(sender, ids, id_bucket) end
        remember(shard, digest, sender, entry.position)
        outcome = 'done:' .. entry.position
      end
    end
  end
  outcomes[#outcomes + 1] = outcome
end

local received_at = string.format('%.0f', now)
local is_ahead = ms > now
for _, entry in ipairs(entries) do
  local count, size, field, body = entry.count, entry.size, entry.field, entry.body
  if entry.rows then
    field, body = 'body', table.concat(entry.rows, ',')
    count, size = #entry.rows, #body
  end
  local last_fields = {}
  if entry.skip then last_fields = { 'time', received_at, 'skip', entry.skip }
  elseif is_ahead then last_fields = { 'time', received_at } end
  local shares = {}
  for holder, share in pairs(entry.shares) do shares[#shares + 1] = string.format('%.0f ', share) .. holder end
  redis.call('XADD', KEYS.stream, entry.position, 'kind', entry.kind, 'held', table.concat(shares, '\n'),
    'count', count, 'bytes', size, field, body, unpack(last_fields))
  -- Do this after XADD: if Redis refuses that because it is out of memory, no entry refers to the body, which expires.
  if field == 'at' then redis.call('PERSIST', body_key(body)) end
  bytes = bytes + size
end

record_requests()
record_ids()
record_held()
-- If nothing waits, everything that was assigned is stored: a floor that no entry followed is not assigned.
if #entries == 0 then ms, seq = tonumber(last_ms), tonumber(last_seq) end
redis.call('HSET', meta, 'ms', string.format('%.0f', ms), 'seq', seq, 'bytes', bytes,
  'added', string.format('%.0f', tonumber(added_before) + #entries), 'states', string.format('%.0f', states))
local reply = added_before .. ' ' .. table.concat(outcomes, ',') .. ' ' .. received_at
for n, name in ipairs(shortened) do
  local digits = string.gsub(name, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
  reply = reply .. (n == 1 and ' ' or ',') .. digits
end
redis.call('SET', producer, ARGV.sequence .. ' ' .. reply, 'PX', 3600000)
return reply
