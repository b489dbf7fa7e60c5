-- Remembers requests of another journal. What is here already, and more than reserved, stays.
local reserved = string.rep('\0', 8)
for i = ARGS.length + 1, #ARGV, KEPT_REQUEST.length do
  local hash, request = ARGV[i + KEPT_REQUEST.hash], ARGV[i + KEPT_REQUEST.fieldAndValue]
  local field, value = string.sub(request, 1, FIELD_BYTES), string.sub(request, FIELD_BYTES + 1)
  local here = redis.call('HGET', hash, field)
  if not here or (string.sub(here, 1, 8) == reserved and string.sub(value, 1, 8) ~= reserved) then
    redis.call('HSET', hash, field, value)
    redis.call('PEXPIREAT', hash, ARGV[i + KEPT_REQUEST.expiresAt])
  end
end
