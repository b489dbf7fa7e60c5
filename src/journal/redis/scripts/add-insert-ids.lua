-- Remembers ids of another journal, in the bucket in which they arrived there.
local prefix, max_ids = ARGV.prefix, { page = math.huge, secret = math.huge }
--- include shared/now
--- include shared/remembered
--- include shared/insert-ids
--- include shared/change-insert-ids
take_ids(ARGV.sender, ARGV.ids, tonumber(ARGV.bucket))
record_ids()
