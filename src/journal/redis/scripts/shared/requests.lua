-- Finds remembered requests. Needs `prefix` and `now`.
--
-- Requests are in hashes, one for each bucket of time and each shard, which is the first two bytes of a key in
-- hexadecimal digits. So Redis stores them as listpacks, without a pointer to each, and never frees a large one when
-- a bucket expires. The field is the rest of the key's bytes, the value is what `formatRequest` makes.
--
-- A request is passed as its shard, "" if there is none, and its digest: the field, then the fingerprint, both in
-- bytes.
local request_bucket = math.floor(now / IDEMPOTENCY_BUCKET_MS)
local request_hashes = {}
local function requests_at(bucket, shard)
  local hashes = request_hashes[bucket]
  if not hashes then
    hashes = prefix .. ':requests:' .. string.format('%.0f', bucket) .. ':'
    request_hashes[bucket] = hashes
  end
  return hashes .. shard
end

-- The outcome of a known request, or nil and whether it is reserved.
local function known(shard, digest)
  if shard == '' then return nil end
  local is_reserved = false
  local field = string.sub(digest, 1, FIELD_BYTES)
  -- From the next bucket on, because the clock may have been fast when the request came.
  for bucket = request_bucket + 1, request_bucket - OLD_BUCKETS, -1 do
    local value = redis.call('HGET', requests_at(bucket, shard), field)
    if value then
      local fingerprint = string.sub(value, POSITION_BYTES + 1, VALUE_BYTES)
      if fingerprint ~= string.sub(digest, FIELD_BYTES + 1) then return 'mismatch' end
      local ms, seq = struct.unpack('>I6I2', value)
      local origin = ''
      if #value > VALUE_BYTES then origin = string.format(':%.0f', struct.unpack('>I4', value, VALUE_BYTES + 1)) end
      if #value > VALUE_BYTES + JOURNAL_BYTES then
        origin = origin .. string.format(':%.0f', struct.unpack('>I3', value, VALUE_BYTES + JOURNAL_BYTES + 1))
      end
      if ms > 0 then return string.format('repeated:%.0f-%.0f', ms, seq) .. origin end
      is_reserved = true
    end
  end
  return nil, is_reserved
end
