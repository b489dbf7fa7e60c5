import { INSERT_ID_BYTES } from '../../../model/insert-id.js'
import { INSERT_ID_BUCKET_MS, OLD_ID_BUCKETS } from '../../insert-id-memory.js'
import { NOW } from './shared.js'

/** Ids of a hash, on average, from which on the tier takes no more. Redis keeps a hash of up to 512 fields as a listpack. */
const FULL = 128
/** Ids of a hash, on average, that a tier is made for if its bucket gets as many ids as the one before. */
const EXPECTED = 128
/** Bits of an id that choose its hash: of a first tier, more in each next one of the same bucket, and at most. */
const FIRST_BITS = 4
const MORE_BITS = 4
const MAX_BITS = 24
/** Hashes that a write removes of an expired tier. */
const REMOVED = 64
/** New ids for which a hash of a tier that is full is moved to the next one: some two ids for each that comes. */
const IDS_PER_MOVE = 64

/**
 * Lua: finds ids and remembers them. Needs `prefix`, `now` in ms, and `id_text`, the field `ids` of meta.
 *
 * An id is 16 bytes; 16 zeros stand for none. Ids are fields of hashes that are small enough for Redis to keep them as
 * listpacks, without a pointer to each: 23 bytes of memory for an id, where a key takes 100. How many hashes that needs
 * depends on how many ids there are, so they come in tiers: each bucket of time begins one with as many hashes as the ids
 * of the bucket before needed, and another one with 16 times as many when it is full, to which its own ids are moved. An id
 * is looked for in all tiers that have not expired, and added to the last one of its bucket. Tiers are moved, and removed
 * once they have expired, by the names of their hashes, some with each write, so that no write is long.
 *
 * The tiers are in `ids`, in order, as `<bucket>.<step>:<bits>:<ids>:<hashes moved or removed>`; a hash of theirs is
 * `<prefix>:ids:<bucket>.<step>:<number>`.
 */
export const INSERT_IDS = `
local no_id = string.rep('\\0', ${INSERT_ID_BYTES})
local id_generation = math.floor(now / ${INSERT_ID_BUCKET_MS})
local id_tiers, are_ids_changed = {}, false
local function add_tier(generation, step, bits, count, removed)
  id_tiers[#id_tiers + 1] = {
    generation = generation, step = step, bits = bits, count = count, removed = removed,
    hashes = prefix .. ':ids:' .. string.format('%.0f.%.0f:', generation, step), size = 2 ^ (24 - bits)
  }
  return id_tiers[#id_tiers]
end
for generation, step, bits, count, removed in string.gmatch(id_text or '', '(%d+)%.(%d+):(%d+):(%d+):(%d+)') do
  add_tier(tonumber(generation), tonumber(step), tonumber(bits), tonumber(count), tonumber(removed))
end

local function forget_ids()
  local oldest = id_tiers[1]
  if not oldest or oldest.generation >= id_generation - ${OLD_ID_BUCKETS} then return end
  local hashes, last = {}, math.min(2 ^ oldest.bits, oldest.removed + ${REMOVED})
  for number = oldest.removed, last - 1 do hashes[#hashes + 1] = oldest.hashes .. number end
  redis.call('UNLINK', unpack(hashes))
  oldest.removed, are_ids_changed = last, true
  if last == 2 ^ oldest.bits then table.remove(id_tiers, 1) end
end

-- The tier that takes the ids of a bucket.
local function tier_of(generation)
  local newest, before, ids_before = nil, nil, 0
  for _, tier in ipairs(id_tiers) do
    if tier.generation == generation then newest = tier
    elseif tier.generation < generation then
      if tier.generation ~= before then before, ids_before = tier.generation, 0 end
      ids_before = ids_before + tier.count
    end
  end
  if newest and (newest.count < ${FULL} * 2 ^ newest.bits or newest.bits == ${MAX_BITS}) then return newest end
  local bits = ${FIRST_BITS}
  if newest then bits = math.min(${MAX_BITS}, newest.bits + ${MORE_BITS}) end
  while not newest and bits < ${MAX_BITS} and ids_before > ${EXPECTED} * 2 ^ bits do bits = bits + 1 end
  local tier = add_tier(generation, newest and newest.step + 1 or 0, bits, 0, 0)
  table.sort(id_tiers, function(a, b)
    return a.generation < b.generation or (a.generation == b.generation and a.step < b.step)
  end)
  return tier
end

local function living_tiers(except)
  local living = {}
  for _, tier in ipairs(id_tiers) do
    if tier ~= except and tier.generation >= id_generation - ${OLD_ID_BUCKETS} then living[#living + 1] = tier end
  end
  return living
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

-- The indexes of those that are known.
local function find_ids(ids)
  local found, tiers = {}, living_tiers()
  for i = 0, #ids / ${INSERT_ID_BYTES} - 1 do
    local id = string.sub(ids, i * ${INSERT_ID_BYTES} + 1, (i + 1) * ${INSERT_ID_BYTES})
    if id ~= no_id and is_in(tiers, id, number_of(id)) then found[#found + 1] = i end
  end
  return found
end

-- Moves some ids of the first tier that has a next one in its bucket.
local function move_ids(count)
  for i, tier in ipairs(id_tiers) do
    local target = nil
    for j = i + 1, #id_tiers do
      if id_tiers[j].generation == tier.generation then target = id_tiers[j] end
    end
    if target and tier.generation >= id_generation - ${OLD_ID_BUCKETS} then
      local last = math.min(2 ^ tier.bits, tier.removed + math.ceil(count / ${IDS_PER_MOVE}))
      for number = tier.removed, last - 1 do
        for _, id in ipairs(redis.call('HKEYS', tier.hashes .. number)) do
          redis.call('HSET', target.hashes .. math.floor(number_of(id) / target.size), id, '')
          tier.count, target.count = tier.count - 1, target.count + 1
        end
        redis.call('UNLINK', tier.hashes .. number)
      end
      tier.removed, are_ids_changed = last, true
      if last == 2 ^ tier.bits then table.remove(id_tiers, i) end
      return
    end
  end
end

-- Remembers them. Returns the indexes of those that are known.
local function take_ids(ids, generation)
  local known, newest = {}, tier_of(generation)
  local others, added = living_tiers(newest), 0
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
  if added > 0 then newest.count, are_ids_changed = newest.count + added, true end
  if added > 0 then move_ids(added) end
  return known
end

local function record_ids()
  if not are_ids_changed then return end
  local texts = {}
  for i, tier in ipairs(id_tiers) do
    texts[i] = string.format('%.0f.%.0f:%.0f:%.0f:%.0f', tier.generation, tier.step, tier.bits, tier.count, tier.removed)
  end
  redis.call('HSET', meta, 'ids', table.concat(texts, ' '))
end
`

/**
 * Finds ids.
 *
 * KEYS  meta
 * ARGV  prefix, the ids
 * Returns the indexes of those that are known, joined by dots.
 */
export const FIND_INSERT_IDS = `#!lua flags=no-writes
local meta, prefix = KEYS[1], ARGV[1]
${NOW}
local id_text = redis.call('HGET', meta, 'ids')
${INSERT_IDS}
return table.concat(find_ids(ARGV[2]), '.')
`

/**
 * Remembers ids of another journal.
 *
 * KEYS  meta
 * ARGV  prefix, the bucket in which they came, the ids
 */
export const ADD_INSERT_IDS = `
local meta, prefix = KEYS[1], ARGV[1]
${NOW}
local id_text = redis.call('HGET', meta, 'ids')
${INSERT_IDS}
take_ids(ARGV[3], tonumber(ARGV[2]))
record_ids()
`
