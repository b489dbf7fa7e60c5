-- The error for a process of another journal or layout, or nil. While the layout is being changed, the layout of the
-- journal is "<version>><next version>": reading and storing continue, and only write.lua refuses.
local function refusal(id, layout)
  if id ~= ARGV.journalId then return redis.error_reply('GONE this journal does not exist') end
  if string.match(layout, '^%d+') ~= ARGV.layout then return redis.error_reply('LAYOUT ' .. layout) end
end
