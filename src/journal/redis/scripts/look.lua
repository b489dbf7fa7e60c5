#!lua flags=no-writes
-- Reads the history of Redis and that to which the journal belongs.
--
-- Returns { the journal's id, its history, that of Redis, the stored position, the last position that was here when the
-- journal adopted the history, its format }, each "" if it is absent; INFO, which returns the history of Redis, may be
-- forbidden. Errors: READONLY on a replica, whose history is its master's until it becomes one itself.
local info = redis.pcall('INFO', 'replication')
if type(info) ~= 'string' then info = '' end
if string.match(info, 'role:(%a+)') == 'slave' then return redis.error_reply('READONLY this Redis is a replica') end
local id, history, stored, kept, format =
  unpack(redis.call('HMGET', KEYS.meta, 'id', 'history', 'stored', 'kept', 'format'))
local name = string.match(info, 'master_replid:(%x+)') or ''
return { id or '', history or '', name, stored or '', kept or '', format or '' }
