#!lua flags=allow-oom
-- Deletes a stored block with the bodies of its entries, counts its events as acknowledged, and lets its states expire.
-- It does not read the entries, because the writer has them and reading takes about 2 µs each. While the cached states
-- take too much memory, the oldest lose their text.
--
-- Returns 1, or 0 if another writer has moved on.

-- An acknowledgement takes this many states from the front of the list of cached states, plus two for each that it
-- adds.
local MIN_CUT = 100

--- include shared/now
--- include shared/cached-states
local stream, meta, prefix = KEYS.stream, KEYS.meta, ARGV.prefix
if redis.call('HGET', meta, 'frozen') ~= ARGV.frozen then return 0 end
local last = string.match(ARGV.frozen, '%S+$')
redis.call('HDEL', meta, 'frozen')
local settled = redis.call('XTRIM', stream, 'MINID', ARGV.positionAfter)
-- Subtracted from 0, because negating 0 gives "-0", which Redis does not accept as an integer.
local bytes = redis.call('HINCRBY', meta, 'bytes', 0 - tonumber(ARGV.bodyBytes))
local states = redis.call('HINCRBY', meta, 'states', 0 - tonumber(ARGV.stateBytes))

local function subtract(hash, name, amount)
  if redis.call('HINCRBY', hash, name, 0 - tonumber(amount)) <= 0 then redis.call('HDEL', hash, name) end
end
local i = ARGS.length + 1
for _ = 1, tonumber(ARGV.bodies) do
  redis.call('UNLINK', prefix .. ':body:' .. ARGV[i + BODY.name])
  i = i + BODY.length
end
for _ = 1, tonumber(ARGV.projects) do
  local project, events = ARGV[i + COUNT.name], ARGV[i + COUNT.amount]
  redis.call('HINCRBY', prefix .. ':acknowledged', project, events)
  subtract(KEYS.pending, project, events)
  i = i + COUNT.length
end
for _ = 1, tonumber(ARGV.holders) do
  subtract(prefix .. ':held', ARGV[i + COUNT.name], ARGV[i + COUNT.amount])
  i = i + COUNT.length
end
-- If nothing is left, everything that was assigned is stored: after advance-past.lua, that is later than any entry.
if redis.call('XLEN', stream) == 0 then
  last = table.concat(redis.call('HMGET', meta, 'ms', 'seq'), '-')
  -- Deleted bodies were counted in full, so the sums may not be 0.
  if bytes ~= 0 or states ~= 0 then redis.call('HSET', meta, 'bytes', 0, 'states', 0) end
  redis.call('DEL', prefix .. ':held')
end
redis.call('HSET', meta, 'stored', last)
redis.call('HINCRBY', meta, 'settled', settled)

local expiries, cache = prefix .. ':state-expiries', prefix .. ':state-cache'
local expires = now + tonumber(ARGV.stateMs)
local minute, expiring, order = string.format('%.0f', math.floor(expires / 60000)), 0, {}
while ARGV[i] do
  local name, version = ARGV[i + STORED_STATE.stateKey], ARGV[i + STORED_STATE.version]
  local state_key = prefix .. ':state:' .. name
  if string.match(redis.call('GETRANGE', state_key, 0, 39), '^%S+') == version
    and redis.call('PEXPIRETIME', state_key) == -1 then
    redis.call('PEXPIREAT', state_key, string.format('%.0f', expires))
    local size = redis.call('STRLEN', state_key)
    expiring = expiring + size
    -- A tombstone is no longer than a version alone, and the store may remove its row.
    if size > #version + 1 then order[#order + 1] = minute .. ' ' .. version .. ' ' .. name end
  end
  i = i + STORED_STATE.length
end
if expiring > 0 then redis.call('HINCRBY', expiries, minute, expiring) end
for at = 1, #order, 1000 do redis.call('RPUSH', cache, unpack(order, at, math.min(at + 999, #order))) end
if #order > 0 then redis.call('PEXPIREAT', cache, string.format('%.0f', expires + 60000)) end

local cached, max_cached = cached_states(expiries, now), tonumber(ARGV.cacheBytes)
local done = 0
for _, record in ipairs(redis.call('LRANGE', cache, 0, 2 * #order + MIN_CUT - 1)) do
  local expiry, version, name = string.match(record, '^(%S+) (%S+) (%S+)$')
  local is_counted = (tonumber(expiry) + 1) * 60000 > now
  if is_counted and cached <= max_cached then break end
  local state_key = prefix .. ':state:' .. name
  if is_counted and string.match(redis.call('GETRANGE', state_key, 0, 39), '^%S+') == version then
    local cut = redis.call('STRLEN', state_key) - #version
    redis.call('SET', state_key, version, 'KEEPTTL')
    redis.call('HINCRBY', expiries, expiry, 0 - cut)
    cached = cached - cut
  end
  done = done + 1
end
if done > 0 then redis.call('LTRIM', cache, done, -1) end
redis.call('PUBLISH', prefix .. ':stored', last)
return 1
