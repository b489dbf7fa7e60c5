#!lua flags=allow-oom
-- Removes states whose versions are not after a position, and their mark.
local prefix = ARGV.prefix
--- include shared/uncount-state
local function parse(position)
  local ms, seq = string.match(position, '^(%d+)-(%d+)')
  return tonumber(ms), tonumber(seq)
end
local last_ms, last_seq = parse(ARGV.last)
redis.call('DEL', KEYS.mark)
for i = ARGS.length + 1, #ARGV do
  local key = prefix .. ':state:' .. ARGV[i]
  local ms, seq = parse(redis.call('GETRANGE', key, 0, 39))
  if ms and (not last_ms or ms < last_ms or (ms == last_ms and seq <= last_seq)) then
    uncount_state(key)
    redis.call('DEL', key)
  end
end
