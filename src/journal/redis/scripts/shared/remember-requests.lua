-- Remembers requests, up to `max_requests` of a sender, by class of key. Needs requests.lua, `now` and `journal_id`.
local request_counts = {}
local function request_counts_at(bucket) return prefix .. ':request-counts:' .. bucket end
local current_bucket
-- Returns the current bucket, and lists it.
local function list_bucket()
  if current_bucket then return current_bucket end
  current_bucket = string.format('%.0f', math.floor(now / IDEMPOTENCY_BUCKET_MS))
  local buckets = read_buckets()
  for _, bucket in ipairs(buckets) do if bucket == current_bucket then return current_bucket end end
  buckets[#buckets + 1] = current_bucket
  request_buckets = request_buckets and request_buckets .. ' ' .. current_bucket or current_bucket
  redis.call('HSET', KEYS.meta, 'request-buckets', request_buckets)
  return current_bucket
end

local function is_limited(sender)
  local count = request_counts[sender]
  if not count then
    count = { before = 0, added = 0 }
    request_counts[sender] = count
    for _, bucket in ipairs(read_buckets()) do
      count.before = count.before + tonumber(redis.call('HGET', request_counts_at(bucket), sender) or 0)
    end
  end
  return count.before + count.added >= max_requests[string.match(sender, '^%a+')]
end
-- The outcome of a request that is not executed, otherwise nil. A reserved request has been counted.
local function refused(shard, digest, sender)
  if shard == '' then return nil end
  local outcome, is_reserved = known(shard, digest)
  if outcome then return outcome end
  return is_limited(sender) and not is_reserved and 'limited' or nil
end
-- Remembers a request. `index` is the index of the event in its entry; nil means 0.
local function remember(shard, digest, sender, position, index)
  if shard == '' then return end
  local ms, seq = string.match(position, '^(%d+)-(%d+)$')
  local requests = requests_at(list_bucket(), shard)
  local origin = ''
  if index and index > 0 then origin = struct.pack('>I4I3', journal_id, index) end
  local added = redis.call('HSET', requests, string.sub(digest, 1, FIELD_BYTES),
    struct.pack('>I6I2', tonumber(ms), tonumber(seq)) .. string.sub(digest, FIELD_BYTES + 1) .. origin)
  request_counts[sender].added = request_counts[sender].added + added
end
local function record_requests()
  for sender, count in pairs(request_counts) do
    if count.added > 0 then redis.call('HINCRBY', request_counts_at(current_bucket), sender, count.added) end
  end
end
