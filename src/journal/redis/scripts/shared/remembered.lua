-- The time by which ids and requests are forgotten, ms. Forgetting cannot be undone, so it must not happen because
-- the clock of Redis is wrong for an hour: this clock is never ahead of that one, and advances only when sweep.lua
-- learns that time has passed. At first, it is the clock of Redis. Needs `now`.
local remembered = math.min(now, tonumber(redis.call('HGET', KEYS.meta, 'remembered') or now))
