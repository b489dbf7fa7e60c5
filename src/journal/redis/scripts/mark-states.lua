#!lua flags=allow-oom
-- Reads the mark of the states, or makes one if there is none. It contains the last position of the stream: states
-- up to there may have been removed together with an earlier mark.
--
-- Returns { ms of the clock, "<random text> <position>" }.
--- include shared/now
--- include shared/refusal
local refused = refusal(unpack(redis.call('HMGET', KEYS.meta, 'id', 'layout')))
if refused then return refused end
local mark = redis.call('GET', KEYS.mark)
if not mark then
  local last = redis.call('XREVRANGE', KEYS.stream, '+', '-', 'COUNT', 1)[1]
  mark = ARGV.random .. ' ' .. (last and last[1] or '0-0')
  redis.call('SET', KEYS.mark, mark)
end
return { string.format('%.0f', now), mark }
