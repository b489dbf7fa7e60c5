#!lua flags=allow-oom
-- Removes states, and their mark.
local prefix = ARGV.prefix
--- include shared/uncount-state
redis.call('DEL', KEYS.mark)
for i = ARGS.length + 1, #ARGV do
  local key = prefix .. ':state:' .. ARGV[i]
  if redis.call('EXISTS', key) == 1 then
    uncount_state(key)
    redis.call('DEL', key)
  end
end
