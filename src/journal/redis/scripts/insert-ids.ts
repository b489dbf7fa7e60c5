import { INSERT_ID_BYTES } from '../../../model/insert-id.js'
import { INSERT_ID_BUCKET_MS, INSERT_ID_MEMORY_MS, OLD_ID_BUCKETS } from '../../insert-id-memory.js'
import { NOW, REMEMBERED } from './shared.js'

/** Ids of a hash, on average, from which on the tier takes no more. Redis keeps a hash of up to 512 fields as a listpack. */
const FULL = 128
/** Bits of an id that choose its hash: more in each next tier of the same segment, and at most. */
const MORE_BITS = 4
const MAX_BITS = 24
/** Hashes that a write removes of what a sender's ids no longer need, and more, if it brings more ids than eight for each. */
const REMOVED = 64
const IDS_PER_REMOVED = 8
/** New ids for which a hash of a tier that is full is moved to the next one: some two ids for each that comes. */
const IDS_PER_MOVE = 64
/** Arguments of one UNLINK: Lua has room for some thousands. */
const UNLINKED = 1000

/**
 * Lua: finds ids and remembers them, of each sender apart. Needs `prefix`, `now` and `remembered`, in ms.
 *
 * An id is 16 bytes; 16 zeros stand for none. Ids are fields of hashes that are small enough for Redis to keep them as
 * listpacks, without a pointer to each: 23 bytes of memory for an id, where a key takes 100. How many hashes that needs
 * depends on how many ids there are, so they come in tiers: a segment, which has ids of one bucket of time, begins one with as
 * many hashes as the ids of the segment before needed, the first with one, and another one with 16 times as many when it is
 * full, to which its own ids are moved. An id is looked for in all tiers, and added to the last one of its segment. A segment
 * that has half of what a sender may have remembered takes no more, so that the oldest can be dropped when there are too many.
 * Tiers are moved, and removed once they are dropped or have expired, by the names of their hashes, some with each write, so
 * that no write is long.
 *
 * `<prefix>:ids` is a hash with a field for each sender: `<since>:<number of the next segment>`, then its tiers in their
 * order, each ` <segment>.<step>:<bucket>:<ms at which it was begun>:<bits>:<ids>:<hashes moved or removed>:<1 if it is to be
 * removed>`. Before `since`, ms, ids were forgotten early; 0 if never. A hash of a tier is
 * `<prefix>:ids:<sender>:<segment>.<step>:<number>`.
 */
export const INSERT_IDS = `
local no_id = string.rep('\\0', ${INSERT_ID_BYTES})
local id_index, id_spaces, shortened = prefix .. ':ids', {}, {}
local id_bucket = math.floor(now / ${INSERT_ID_BUCKET_MS})
local id_oldest = math.floor(remembered / ${INSERT_ID_BUCKET_MS}) - ${OLD_ID_BUCKETS}

local function add_tier(space, tier)
  tier.hashes = space.hashes .. string.format('%.0f.%.0f:', tier.segment, tier.step)
  tier.size = 2 ^ (${MAX_BITS} - tier.bits)
  space.tiers[#space.tiers + 1] = tier
  return tier
end
-- What is remembered of a sender; the text is what the index has of it, or false.
local function read_space(name, text)
  local space = { name = name, hashes = id_index .. ':' .. name .. ':', tiers = {}, added = 0, is_changed = false }
  local since, next_segment = string.match(text or '0:0', '^(%d+):(%d+)')
  space.since, space.next = tonumber(since), tonumber(next_segment)
  local pattern = ' (%d+)%.(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d)'
  for segment, step, bucket, start, bits, count, removed, dead in string.gmatch(text or '', pattern) do
    local tier = add_tier(space, {
      segment = tonumber(segment), step = tonumber(step), bucket = tonumber(bucket), start = tonumber(start),
      bits = tonumber(bits), count = tonumber(count), removed = tonumber(removed), dead = dead == '1'
    })
    if not tier.dead and tier.bucket < id_oldest then tier.dead, space.is_changed = true, true end
  end
  id_spaces[name] = space
  return space
end
local function space_of(name)
  return id_spaces[name] or read_space(name, redis.call('HGET', id_index, name))
end

local function is_in(tiers, id, number)
  for _, tier in ipairs(tiers) do
    if redis.call('HEXISTS', tier.hashes .. math.floor(number / tier.size), id) == 1 then return true end
  end
  return false
end
local function number_of(id)
  local high, middle, low = string.byte(id, 5, 7)
  return high * 65536 + middle * 256 + low
end
local function count_ids(space)
  local count = 0
  for _, tier in ipairs(space.tiers) do if not tier.dead then count = count + tier.count end end
  return count
end
-- The latest first, because most repetitions come soon.
local function living_tiers(space, except)
  local living = {}
  for i = #space.tiers, 1, -1 do
    local tier = space.tiers[i]
    if tier ~= except and not tier.dead then living[#living + 1] = tier end
  end
  return living
end
-- The indexes of those that are known.
local function find_ids(name, ids)
  local found, tiers = {}, living_tiers(space_of(name))
  for i = 0, #ids / ${INSERT_ID_BYTES} - 1 do
    local id = string.sub(ids, i * ${INSERT_ID_BYTES} + 1, (i + 1) * ${INSERT_ID_BYTES})
    if id ~= no_id and is_in(tiers, id, number_of(id)) then found[#found + 1] = i end
  end
  return found
end
`

/** Lua: adds to INSERT_IDS what changes them. Needs `max_ids`, by class of key, where ids are taken. */
export const CHANGE_INSERT_IDS = `
-- Removes hashes that are not needed any more, up to a limit. Returns what is left of the limit.
local function remove_ids(space, limit)
  local i = 1
  while limit > 0 and i <= #space.tiers do
    local tier = space.tiers[i]
    if tier.dead then
      local last = math.min(2 ^ tier.bits, tier.removed + limit)
      limit = limit - (last - tier.removed)
      while tier.removed < last do
        local hashes, to = {}, math.min(last, tier.removed + ${UNLINKED})
        for number = tier.removed, to - 1 do hashes[#hashes + 1] = tier.hashes .. number end
        redis.call('UNLINK', unpack(hashes))
        tier.removed = to
      end
      space.is_changed = true
    end
    if tier.dead and tier.removed == 2 ^ tier.bits then table.remove(space.tiers, i) else i = i + 1 end
  end
  return limit
end

local function drop_segment(space, segment)
  for _, tier in ipairs(space.tiers) do
    if tier.segment == segment and not tier.dead then tier.dead, space.is_changed = true, true end
  end
end
-- Drops the oldest segment but one. Returns false where there is no other.
local function drop_oldest(space, except)
  local oldest, after = nil, nil
  for _, tier in ipairs(space.tiers) do
    if not tier.dead then
      if not oldest and tier.segment ~= except then oldest = tier.segment
      elseif oldest and tier.segment ~= oldest and not after then after = tier.start end
    end
  end
  if not oldest then return false end
  drop_segment(space, oldest)
  if space.since == 0 or now - space.since >= ${INSERT_ID_MEMORY_MS} then shortened[#shortened + 1] = space.name end
  space.since = after or now
  return true
end
-- The tier that takes the ids of a bucket.
local function tier_of(space, bucket, max)
  local newest, counts, before = nil, {}, 0
  for _, tier in ipairs(space.tiers) do
    if not tier.dead then
      counts[tier.segment] = (counts[tier.segment] or 0) + tier.count
      before = counts[tier.segment]
      if tier.bucket == bucket then newest = tier end
    end
  end
  if newest and counts[newest.segment] >= max / 2 then newest = nil end
  if newest and (newest.count < ${FULL} * 2 ^ newest.bits or newest.bits == ${MAX_BITS}) then return newest end
  if newest then
    local tier = add_tier(space, {
      segment = newest.segment, step = newest.step + 1, bucket = bucket, start = newest.start,
      bits = math.min(${MAX_BITS}, newest.bits + ${MORE_BITS}), count = 0, removed = 0
    })
    table.sort(space.tiers, function(a, b)
      return a.segment < b.segment or (a.segment == b.segment and a.step < b.step)
    end)
    return tier
  end
  local bits = 0
  while bits < ${MAX_BITS} and before > ${FULL} * 2 ^ bits do bits = bits + 1 end
  space.next = space.next + 1
  return add_tier(space, {
    segment = space.next, step = 1, bucket = bucket, start = now, bits = bits, count = 0, removed = 0
  })
end

-- Moves some ids of the first tier that has a next one in its segment.
local function move_ids(space, count)
  for i, tier in ipairs(space.tiers) do
    local target = nil
    for j = i + 1, #space.tiers do
      if space.tiers[j].segment == tier.segment then target = space.tiers[j] end
    end
    if target and not tier.dead then
      local last = math.min(2 ^ tier.bits, tier.removed + math.ceil(count / ${IDS_PER_MOVE}))
      for number = tier.removed, last - 1 do
        for _, id in ipairs(redis.call('HKEYS', tier.hashes .. number)) do
          redis.call('HSET', target.hashes .. math.floor(number_of(id) / target.size), id, '')
          tier.count, target.count = tier.count - 1, target.count + 1
        end
        redis.call('UNLINK', tier.hashes .. number)
      end
      tier.removed = last
      if last == 2 ^ tier.bits then table.remove(space.tiers, i) end
      return
    end
  end
end

-- Remembers them. Returns the indexes of those that are known.
local function take_ids(name, ids, bucket)
  local space, max = space_of(name), max_ids[string.match(name, '^%a+')]
  local known, newest = {}, tier_of(space, bucket, max)
  local others, added = living_tiers(space, newest), 0
  for i = 0, #ids / ${INSERT_ID_BYTES} - 1 do
    local id = string.sub(ids, i * ${INSERT_ID_BYTES} + 1, (i + 1) * ${INSERT_ID_BYTES})
    if id ~= no_id then
      local number = number_of(id)
      if is_in(others, id, number) or redis.call('HSETNX', newest.hashes .. math.floor(number / newest.size), id, '') == 0 then
        known[#known + 1] = i
      else
        added = added + 1
      end
    end
  end
  if added > 0 then
    newest.count, space.added, space.is_changed = newest.count + added, space.added + added, true
    move_ids(space, added)
    while count_ids(space) > max and drop_oldest(space, newest.segment) do end
  end
  return known
end

-- Records what has changed, once some of what is not needed any more is removed.
local function record_ids()
  for name, space in pairs(id_spaces) do
    if space.added > 0 then remove_ids(space, ${REMOVED} + math.ceil(space.added / ${IDS_PER_REMOVED})) end
    if space.is_changed then
      local texts = { string.format('%.0f:%.0f', space.since, space.next) }
      for i, tier in ipairs(space.tiers) do
        texts[i + 1] = string.format('%.0f.%.0f:%.0f:%.0f:%.0f:%.0f:%.0f:%d', tier.segment, tier.step, tier.bucket, tier.start,
          tier.bits, tier.count, tier.removed, tier.dead and 1 or 0)
      end
      if #space.tiers == 0 and now - space.since >= ${INSERT_ID_MEMORY_MS} then redis.call('HDEL', id_index, name)
      else redis.call('HSET', id_index, name, table.concat(texts, ' ')) end
    end
  end
end
`

/**
 * Finds ids.
 *
 * KEYS  meta
 * ARGV  prefix, name of the sender, the ids
 * Returns the indexes of those that are known, joined by dots.
 */
export const FIND_INSERT_IDS = `#!lua flags=no-writes
local meta, prefix = KEYS[1], ARGV[1]
${NOW}
${REMEMBERED}
${INSERT_IDS}
return table.concat(find_ids(ARGV[2], ARGV[3]), '.')
`

/**
 * Tells what is remembered of some senders.
 *
 * KEYS  meta
 * ARGV  prefix, the names of the senders
 * Returns for each its name, the number of its ids and `since`.
 */
export const COUNT_INSERT_IDS = `#!lua flags=no-writes
local meta, prefix = KEYS[1], ARGV[1]
${NOW}
${REMEMBERED}
${INSERT_IDS}
local reply = {}
for i = 2, #ARGV do
  local space = space_of(ARGV[i])
  reply[#reply + 1] = space.name
  reply[#reply + 1] = string.format('%.0f', count_ids(space))
  reply[#reply + 1] = string.format('%.0f', space.since)
end
return reply
`

/**
 * Remembers ids of another journal.
 *
 * KEYS  meta
 * ARGV  prefix, name of the sender, the bucket in which they came, the ids
 */
export const ADD_INSERT_IDS = `
local meta, prefix, max_ids = KEYS[1], ARGV[1], { page = math.huge, secret = math.huge }
${NOW}
${REMEMBERED}
${INSERT_IDS}${CHANGE_INSERT_IDS}
take_ids(ARGV[2], ARGV[4], tonumber(ARGV[3]))
record_ids()
`

/**
 * Lists some senders, and removes some of what is not needed any more of them: writes do that only for the senders whose
 * ids they bring. It also lets the time pass by which ids and requests are forgotten.
 *
 * KEYS  meta
 * ARGV  prefix, where to go on, how many senders, how many hashes to remove at most, the latest that `remembered` may be
 *       now, as far as the caller knows, or 0
 * Returns { where to go on or 0, `remembered`, 1 where there is more to remove or 0, then for each sender its name, the
 * number of its ids and `since` }.
 */
export const SWEEP_INSERT_IDS = `#!lua flags=allow-oom
local meta, prefix = KEYS[1], ARGV[1]
${NOW}
${REMEMBERED}
local latest = tonumber(ARGV[5])
if latest > remembered then remembered = math.min(now, latest) end
redis.call('HSET', meta, 'remembered', string.format('%.0f', remembered))
${INSERT_IDS}${CHANGE_INSERT_IDS}
local scan, left = redis.call('HSCAN', id_index, ARGV[2], 'COUNT', ARGV[3]), tonumber(ARGV[4])
local reply = { scan[1], string.format('%.0f', remembered), 0 }
for i = 1, #scan[2], 2 do
  local space = read_space(scan[2][i], scan[2][i + 1])
  left = remove_ids(space, left)
  if #space.tiers == 0 and now - space.since >= ${INSERT_ID_MEMORY_MS} then space.is_changed = true end
  reply[#reply + 1] = space.name
  reply[#reply + 1] = string.format('%.0f', count_ids(space))
  reply[#reply + 1] = string.format('%.0f', space.since)
end
if left == 0 then reply[3] = 1 end
record_ids()
return reply
`

/**
 * Forgets ids of a sender, all or those of the oldest segment, and removes some of what they need.
 *
 * KEYS  meta
 * ARGV  prefix, name of the sender, "all", "oldest" or "" to remove only, how many hashes to remove at most, how many ids
 *       there must be for "oldest"
 * Returns { 1 where there is more to remove or 0, the sender if its ids are known for a shorter time from now on, or "" }.
 */
export const FORGET_INSERT_IDS = `#!lua flags=allow-oom
local meta, prefix = KEYS[1], ARGV[1]
${NOW}
${REMEMBERED}
${INSERT_IDS}${CHANGE_INSERT_IDS}
local space = space_of(ARGV[2])
if ARGV[3] == 'all' then
  for _, tier in ipairs(space.tiers) do tier.dead = true end
  space.since, space.is_changed = now, true
elseif ARGV[3] == 'oldest' and count_ids(space) >= tonumber(ARGV[5]) then
  drop_oldest(space, space.next)
end
local left = remove_ids(space, tonumber(ARGV[4]))
record_ids()
return { left == 0 and 1 or 0, shortened[1] or '' }
`
