-- Subtracts a state that will be replaced or removed from the bytes of those that will expire. Needs `prefix`.
local expiries = prefix .. ':state-expiries'
local function uncount_state(state_key)
  local expires = redis.call('PEXPIRETIME', state_key)
  if expires > 0 then
    local minute = string.format('%.0f', math.floor(expires / 60000))
    -- At most the counted bytes, because the count is removed when the minute is over.
    local size = math.min(redis.call('STRLEN', state_key), tonumber(redis.call('HGET', expiries, minute) or 0))
    -- Lua writes the negative of 0 as -0, which Redis does not accept as an integer.
    if size > 0 then redis.call('HINCRBY', expiries, minute, -size) end
  end
end
