-- Adds states of another journal that do not expire, unless the same or a later version is here.
local prefix = ARGV.prefix
--- include shared/uncount-state
local function parts(version)
  local ms, seq = string.match(version, '^(%d+)-(%d+)')
  return tonumber(ms), tonumber(seq)
end
for i = ARGS.length + 1, #ARGV, KEPT_STATE.length do
  local key, version = prefix .. ':state:' .. ARGV[i + KEPT_STATE.stateKey], ARGV[i + KEPT_STATE.version]
  local ms, seq = parts(version)
  local here = redis.call('GETRANGE', key, 0, 39)
  local is_newer = here == ''
  if here ~= '' then
    local here_ms, here_seq = parts(here)
    is_newer = ms > here_ms or (ms == here_ms and seq > here_seq)
  end
  if is_newer then
    if here ~= '' then uncount_state(key) end
    redis.call('SET', key, version .. ' ' .. ARGV[i + KEPT_STATE.state])
  end
end
