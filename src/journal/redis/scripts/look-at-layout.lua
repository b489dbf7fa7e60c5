#!lua flags=no-writes
-- Reads the state of a journal for a change of the layout.
--
-- Returns { id or nil, layout or nil, last position assigned, format or nil }.
local id, layout, ms, seq, format = unpack(redis.call('HMGET', KEYS.meta, 'id', 'layout', 'ms', 'seq', 'format'))
return { id, layout, (ms or '0') .. '-' .. (seq or '0'), format }
