-- Remembers requests of another journal, in the bucket in which they arrived there. A request that is known here,
-- and not only reserved, is left unchanged.
local reserved, buckets = string.rep('\0', 8), redis.call('HGET', KEYS.meta, 'request-buckets') or ''
for i = ARGS.length + 1, #ARGV, KEPT_REQUEST.length do
  local bucket, request = ARGV[i + KEPT_REQUEST.bucket], ARGV[i + KEPT_REQUEST.fieldAndValue]
  local hash = ARGV.prefix .. ':requests:' .. bucket .. ':' .. ARGV[i + KEPT_REQUEST.shard]
  local field, value = string.sub(request, 1, FIELD_BYTES), string.sub(request, FIELD_BYTES + 1)
  local here = redis.call('HGET', hash, field)
  if not here or (string.sub(here, 1, 8) == reserved and string.sub(value, 1, 8) ~= reserved) then
    redis.call('HSET', hash, field, value)
  end
  if not string.find(' ' .. buckets .. ' ', ' ' .. bucket .. ' ', 1, true) then
    buckets = (buckets == '' and '' or buckets .. ' ') .. bucket
  end
end
redis.call('HSET', KEYS.meta, 'request-buckets', buckets)
