#!lua flags=allow-oom
-- Lists some senders, and removes some of their hashes that are not needed any more: writes do that only for the
-- senders whose ids they bring. It also advances the time by which ids are forgotten.
--
-- Returns { where to go on or 0, `remembered`, 1 if there is more to remove or 0, then for each sender its name, the
-- number of its ids and `since` }.
local prefix = ARGV.prefix
--- include shared/now
--- include shared/remembered
local latest = tonumber(ARGV.latest)
if latest > remembered then remembered = math.min(now, latest) end
redis.call('HSET', KEYS.meta, 'remembered', string.format('%.0f', remembered))
--- include shared/insert-ids
--- include shared/change-insert-ids
local scan, left = redis.call('HSCAN', id_index, ARGV.cursor, 'COUNT', ARGV.senders), tonumber(ARGV.hashes)
local reply = { scan[1], string.format('%.0f', remembered), 0 }
for i = 1, #scan[2], 2 do
  local space = read_space(scan[2][i], scan[2][i + 1])
  left = remove_ids(space, left)
  if #space.tiers == 0 and now - space.since >= INSERT_ID_MEMORY_MS then space.is_changed = true end
  reply[#reply + 1] = space.name
  reply[#reply + 1] = string.format('%.0f', count_ids(space))
  reply[#reply + 1] = string.format('%.0f', space.since)
end
if left == 0 then reply[3] = 1 end
record_ids()
return reply
