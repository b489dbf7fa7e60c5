-- Finds remembered requests. Needs `prefix`, `remembered`, and `request_buckets`, the field of meta.
--
-- Requests are in hashes, one for each bucket of time and each shard, which is the first bytes of a key in hexadecimal
-- digits. So Redis stores them as listpacks, without a pointer to each, and never frees a large one when a bucket is
-- forgotten. The field is the rest of the key's bytes, the value is what `formatRequest` returns. Redis does not expire
-- them: its clock may be wrong for an hour. sweep.lua removes the buckets before `remembered`.
--
-- A request is passed as its shard, "" if there is none, and its digest: the field, then the fingerprint, both in
-- bytes.
local living_buckets
-- The buckets that are not forgotten, including those of a time when the clock was ahead.
local function read_buckets()
  if not living_buckets then
    living_buckets = {}
    local oldest = math.floor(remembered / IDEMPOTENCY_BUCKET_MS) - OLD_BUCKETS
    for bucket in string.gmatch(request_buckets or '', '%d+') do
      if tonumber(bucket) >= oldest then living_buckets[#living_buckets + 1] = bucket end
    end
  end
  return living_buckets
end
local function requests_at(bucket, shard) return prefix .. ':requests:' .. bucket .. ':' .. shard end

-- The outcome of a known request, or nil and whether it is reserved.
local function known(shard, digest)
  if shard == '' then return nil end
  local is_reserved = false
  local field, buckets = string.sub(digest, 1, FIELD_BYTES), read_buckets()
  -- The latest first, because most repetitions follow soon.
  for i = #buckets, 1, -1 do
    local value = redis.call('HGET', requests_at(buckets[i], shard), field)
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
