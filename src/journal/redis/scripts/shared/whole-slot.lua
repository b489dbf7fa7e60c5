-- Refuses to begin while the slot moves to another node of a cluster. The scripts build most key names themselves, so
-- Redis does not know in advance which keys a script needs: while a slot is being moved, it would stop the script at
-- the first key that it does not have, with half of the writes done. Looking up a key that does not exist shows at the
-- start whether the slot is being moved. KEYS[1] is any key of the slot.
local probe = redis.pcall('EXISTS', KEYS[1] .. ':none')
if type(probe) == 'table' then return redis.error_reply('TRYAGAIN the slot is being moved: ' .. probe.err) end
