#!lua flags=no-writes
-- Reads a journal as a change of the layout finds it.
--
-- Returns { id or nil, layout or nil, last position assigned, format or nil }.
local id, layout, ms, seq, format = unpack(redis.call('HMGET', KEYS.meta, 'id', 'layout', 'ms', 'seq', 'format'))
return { id, layout, (ms or '0') .. '-' .. (seq or '0'), format }
