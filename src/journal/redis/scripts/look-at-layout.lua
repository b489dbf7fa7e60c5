#!lua flags=no-writes
-- Reads a journal as a change of the layout finds it.
--
-- Returns { id or nil, layout or nil, last position assigned }.
local id, layout, ms, seq = unpack(redis.call('HMGET', KEYS.meta, 'id', 'layout', 'ms', 'seq'))
return { id, layout, (ms or '0') .. '-' .. (seq or '0') }
