#!lua flags=allow-oom
-- Forgets ids of a sender, all or those of the oldest segment, and removes some of their hashes.
--
-- Returns { 1 if there is more to remove or 0, the sender if its ids are known for a shorter time from now on, or ""
-- }.
local prefix = ARGV.prefix
--- include shared/now
--- include shared/remembered
--- include shared/insert-ids
--- include shared/change-insert-ids
local space = space_of(ARGV.sender)
if ARGV.which == 'all' then
  for _, tier in ipairs(space.tiers) do tier.dead = true end
  space.since, space.requested, space.is_changed = now, 1, true
elseif ARGV.which == 'oldest' and count_ids(space) >= tonumber(ARGV.least) then
  drop_oldest(space, space.next)
end
local left = remove_ids(space, tonumber(ARGV.hashes))
record_ids()
return { left == 0 and 1 or 0, shortened[1] or '' }
