#!lua flags=no-writes
-- Finds ids. Returns the indexes of those that are known, joined by dots.
local prefix = ARGV.prefix
--- include shared/now
--- include shared/remembered
--- include shared/insert-ids
return table.concat(find_ids(ARGV.sender, ARGV.ids), '.')
