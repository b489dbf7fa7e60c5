#!lua flags=allow-oom
-- Measures the entries that wait for the store.
--
-- Returns { entries, bytes, ms since the oldest was accepted or 0, bytes of their states, bytes of the cached states,
-- then the name of each sender that holds more than `large`, and how many bytes it holds }.
--- include shared/now
--- include shared/cached-states
local id, bytes, states = unpack(redis.call('HMGET', KEYS.meta, 'id', 'bytes', 'states'))
if id ~= ARGV.journalId then return redis.error_reply('GONE this journal does not exist') end
local oldest, waiting = redis.call('XRANGE', KEYS.stream, '-', '+', 'COUNT', 1)[1], 0
if oldest then
  local received_at = oldest[2][2 * ENTRY.time + 2] or string.match(oldest[1], '^%d+')
  waiting = math.max(0, now - tonumber(received_at))
end
local cached, held = cached_states(KEYS.expiries, now), redis.call('HGETALL', KEYS.held)
local reply = { redis.call('XLEN', KEYS.stream), tonumber(bytes), waiting, tonumber(states), cached }
for i = 1, #held, 2 do
  if tonumber(held[i + 1]) > tonumber(ARGV.large) then
    reply[#reply + 1] = held[i]
    reply[#reply + 1] = held[i + 1]
  end
end
return reply
