#!lua flags=allow-oom
-- Removes some forgotten hashes: of requests, and of ids of some senders, which it lists. Writes remove only ids of
-- their own senders. It also advances the time by which ids and requests are forgotten.
--
-- Returns { where to continue or 0, `remembered`, 1 if there is more to remove or 0, then for each sender its name,
-- the number of its ids, `since` and `requested` }.
local prefix = ARGV.prefix
--- include shared/now
--- include shared/remembered
local latest = tonumber(ARGV.latest)
if latest > remembered then remembered = math.min(now, latest) end
redis.call('HSET', KEYS.meta, 'remembered', string.format('%.0f', remembered))
--- include shared/insert-ids
--- include shared/change-insert-ids
local left = tonumber(ARGV.hashes)

-- The first bucket of requests that is forgotten.
local buckets, forgotten = {}, nil
local oldest = math.floor(remembered / IDEMPOTENCY_BUCKET_MS) - OLD_BUCKETS
for bucket in string.gmatch(redis.call('HGET', KEYS.meta, 'request-buckets') or '', '%d+') do
  if not forgotten and tonumber(bucket) < oldest then forgotten = bucket else buckets[#buckets + 1] = bucket end
end
if forgotten then
  local hash_prefix, digits = prefix .. ':requests:' .. forgotten .. ':', '%0' .. 2 * SHARD_BYTES .. 'x'
  local record = redis.call('HGET', KEYS.meta, 'request-removed') or ''
  local first = tonumber(string.match(record, '^' .. forgotten .. ' (%d+)$') or 0)
  local last = math.min(first + left, 256 ^ SHARD_BYTES)
  left = left - (last - first)
  -- Lua can pass a few thousand arguments.
  for from = first, last - 1, 1000 do
    local hashes = {}
    for shard = from, math.min(from + 1000, last) - 1 do
      hashes[#hashes + 1] = hash_prefix .. string.format(digits, shard)
    end
    redis.call('UNLINK', unpack(hashes))
  end
  redis.call('HSET', KEYS.meta, 'request-removed', forgotten .. ' ' .. last)
  if last == 256 ^ SHARD_BYTES then
    redis.call('UNLINK', prefix .. ':request-counts:' .. forgotten)
    redis.call('HSET', KEYS.meta, 'request-buckets', table.concat(buckets, ' '))
    redis.call('HDEL', KEYS.meta, 'request-removed')
  end
end

local scan = redis.call('HSCAN', id_index, ARGV.cursor, 'COUNT', ARGV.senders)
local reply = { scan[1], string.format('%.0f', remembered), 0 }
for i = 1, #scan[2], 2 do
  local space = read_space(scan[2][i], scan[2][i + 1])
  left = remove_ids(space, left)
  if #space.tiers == 0 and now - space.since >= INSERT_ID_MEMORY_MS then space.is_changed = true end
  reply[#reply + 1] = space.name
  reply[#reply + 1] = string.format('%.0f', count_ids(space))
  reply[#reply + 1] = string.format('%.0f', space.since)
  reply[#reply + 1] = space.requested
end
if left == 0 then reply[3] = 1 end
record_ids()
return reply
