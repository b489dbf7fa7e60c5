-- The time by which ids and requests are forgotten, ms. What is forgotten is gone, so an hour in which the clock of
-- Redis is wrong must not decide it: this clock is never ahead of that one, and advances only when sweep.lua learns
-- that time has passed. If there is none yet, it is the clock of Redis. Needs `now`.
local remembered = math.min(now, tonumber(redis.call('HGET', KEYS.meta, 'remembered') or now))
