#!lua flags=no-writes
-- Counts the remembered ids of some senders. Returns for each sender its name, the number of its ids, `since`
-- and `requested`.
local prefix = ARGV.prefix
--- include shared/now
--- include shared/remembered
--- include shared/insert-ids
local reply = {}
for i = ARGS.length + 1, #ARGV do
  local space = space_of(ARGV[i])
  reply[#reply + 1] = space.name
  reply[#reply + 1] = string.format('%.0f', count_ids(space))
  reply[#reply + 1] = string.format('%.0f', space.since)
  reply[#reply + 1] = space.requested
end
return reply
