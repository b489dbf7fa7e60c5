-- Removes expired states from the counts, and returns the bytes of the states that will expire.
local function cached_states(expiries, now)
  local cached, counts = 0, redis.call('HGETALL', expiries)
  for i = 1, #counts, 2 do
    if (tonumber(counts[i]) + 1) * 60000 > now then cached = cached + tonumber(counts[i + 1])
    else redis.call('HDEL', expiries, counts[i]) end
  end
  return cached
end
