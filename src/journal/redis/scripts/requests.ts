import {
  FINGERPRINT_BYTES,
  IDEMPOTENCY_BUCKET_MS,
  IDEMPOTENCY_MEMORY_MS,
  JOURNAL_BYTES,
  KEY_BYTES,
  OLD_BUCKETS,
  VALUE_BYTES,
} from '../../idempotency-memory.js'
import { NOW } from './shared.js'

/** Bytes of a key that are the name of its hash, as hexadecimal digits. */
export const SHARD_BYTES = 2
export const FIELD_BYTES = KEY_BYTES - SHARD_BYTES

/**
 * Lua: finds remembered requests. Needs `prefix` and `now`, in ms.
 *
 * Requests are in hashes, one for each bucket of time and each value of the first two bytes of a key, so that Redis
 * stores them as listpacks, without a pointer to each, and never frees a large one when a bucket expires. The field is
 * the rest of the key's bytes, the value is what `formatRequest` makes.
 *
 * A request is passed as its key (hexadecimal, or "" for none), its fingerprint (hexadecimal), both in bytes, the field
 * first, and the name of its sender. Versions before 0.2 stored it at `request:<key>`, which is still read.
 */
export const REQUESTS = `
local request_bucket = math.floor(now / ${IDEMPOTENCY_BUCKET_MS})
local request_hashes = {}
local function requests_at(bucket, key)
  local hashes = request_hashes[bucket]
  if not hashes then
    hashes = prefix .. ':requests:' .. string.format('%.0f', bucket) .. ':'
    request_hashes[bucket] = hashes
  end
  return hashes .. string.sub(key, 1, ${2 * SHARD_BYTES})
end
local function request_counts_at(bucket) return prefix .. ':request-counts:' .. string.format('%.0f', bucket) end
local function request_expiry() return string.format('%.0f', (request_bucket + 1) * ${IDEMPOTENCY_BUCKET_MS} + ${IDEMPOTENCY_MEMORY_MS}) end

-- The outcome of a known request, or nil and whether it is reserved.
local function known(key, fingerprint, digest)
  if key == '' then return nil end
  local is_reserved = false
  local field = string.sub(digest, 1, ${FIELD_BYTES})
  -- From the next bucket on, as the clock may have been fast when the request came.
  for bucket = request_bucket + 1, request_bucket - ${OLD_BUCKETS}, -1 do
    local value = redis.call('HGET', requests_at(bucket, key), field)
    if value then
      if string.sub(value, 9, ${8 + FINGERPRINT_BYTES}) ~= string.sub(digest, ${FIELD_BYTES + 1}) then return 'mismatch' end
      local ms, seq = struct.unpack('>I6I2', value)
      local place = ''
      if #value > ${VALUE_BYTES} then place = string.format(':%.0f', struct.unpack('>I4', value, ${VALUE_BYTES + 1})) end
      if #value > ${VALUE_BYTES + JOURNAL_BYTES} then
        place = place .. string.format(':%.0f', struct.unpack('>I3', value, ${VALUE_BYTES + JOURNAL_BYTES + 1}))
      end
      if ms > 0 then return string.format('repeated:%.0f-%.0f', ms, seq) .. place end
      is_reserved = true
    end
  end
  local request = redis.call('GET', prefix .. ':request:' .. key)
  if not request then return nil, is_reserved end
  local position, first = string.match(request, '^(%S+) (.*)$')
  if first ~= fingerprint then return 'mismatch' end
  return 'repeated:' .. position
end
`

/**
 * Lua: remembers requests, at most `max_requests` of a sender, by class of key. Needs `journal_id` as well.
 */
export const REMEMBER_REQUESTS = `
local request_counts = {}
local function is_limited(key, sender)
  if key == '' then return false end
  local count = request_counts[sender]
  if not count then
    count = { before = 0, added = 0 }
    request_counts[sender] = count
    for bucket = request_bucket + 1, request_bucket - ${OLD_BUCKETS}, -1 do
      count.before = count.before + tonumber(redis.call('HGET', request_counts_at(bucket), sender) or 0)
    end
  end
  return count.before + count.added >= max_requests[string.match(sender, '^%a+')]
end
-- The outcome of a request that is not executed, else nil. What is reserved is counted already.
local function refused(key, fingerprint, digest, sender)
  local outcome, is_reserved = known(key, fingerprint, digest)
  if outcome then return outcome end
  return is_limited(key, sender) and not is_reserved and 'limited' or nil
end
-- An index is of the event in its entry; nil is 0.
local function remember(key, digest, sender, position, index)
  if key == '' then return end
  local ms, seq = string.match(position, '^(%d+)-(%d+)$')
  local requests = requests_at(request_bucket, key)
  local place = ''
  if index and index > 0 then place = struct.pack('>I4I3', journal_id, index) end
  local added = redis.call('HSET', requests, string.sub(digest, 1, ${FIELD_BYTES}),
    struct.pack('>I6I2', tonumber(ms), tonumber(seq)) .. string.sub(digest, ${FIELD_BYTES + 1}) .. place)
  redis.call('PEXPIREAT', requests, request_expiry())
  request_counts[sender].added = request_counts[sender].added + added
end
local function count_requests()
  for sender, count in pairs(request_counts) do
    if count.added > 0 then
      redis.call('HINCRBY', request_counts_at(request_bucket), sender, count.added)
      redis.call('PEXPIREAT', request_counts_at(request_bucket), request_expiry())
    end
  end
end
`

/**
 * Finds a remembered request.
 *
 * KEYS  meta, for the slot
 * ARGV  prefix, then the request
 * Returns "repeated:<position>", followed by ":<number of a journal>" and ":<index>" where they are remembered,
 * "mismatch" or nil.
 */
export const FIND_REQUEST = `#!lua flags=no-writes
local prefix = ARGV[1]
${NOW}
${REQUESTS}
return (known(ARGV[2], ARGV[3], ARGV[4]))
`
