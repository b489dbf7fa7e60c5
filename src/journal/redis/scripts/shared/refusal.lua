-- The error for a process that belongs to another journal or another layout, or nil. While the layout is changed, the
-- layout of the journal is "<version>><next version>": then reading and storing go on, and only write.lua refuses.
local function refusal(id, layout)
  if id ~= ARGV.journalId then return redis.error_reply('GONE this journal does not exist') end
  if string.match(layout, '^%d+') ~= ARGV.layout then return redis.error_reply('LAYOUT ' .. layout) end
end
