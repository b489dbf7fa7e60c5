#!lua flags=no-writes
-- Reads states: those of the first keys that fit into the bytes, at least one.
--
-- Returns { ms of the clock, the mark of the states or "", then for each key "<version> <state>", "<version>" if the
-- store has the state, or nil if it has none }.
--- include shared/now
local reply = { string.format('%.0f', now), redis.call('GET', KEYS.mark) or '' }
local bytes, max_bytes, first = 0, tonumber(ARGV.bytes), ARGS.length + 1
for i = first, #ARGV do
  local key = ARGV.prefix .. ':state:' .. ARGV[i]
  bytes = bytes + redis.call('STRLEN', key)
  if bytes > max_bytes and i > first then break end
  reply[i - first + 3] = redis.call('GET', key)
end
return reply
