-- Finds insert_ids, separately for each sender. Needs `prefix`, `now` and `remembered`.
--
-- An id is 16 bytes; 16 zeros mean no id. Ids are fields of hashes that are small enough for Redis to keep them as
-- listpacks, without a pointer to each: an id takes 23 bytes of memory, in a separate key it would take 100. The number
-- of hashes depends on the number of ids, so hashes come in tiers. A segment has the ids of one bucket of time. Its
-- first tier has as many hashes as the previous segment's ids needed, or one; once it is full, the next tier has 16
-- times as many, and the ids move there. An id is looked up in all tiers, and added to the last one of its segment. A
-- segment takes no more ids once it has half of the sender's maximum, so that the oldest segment can be dropped when
-- there are too many ids. Each write moves some hashes of a tier that is full, and removes some of those that were
-- dropped or have expired, so that no write takes long.
--
-- `<prefix>:ids` is a hash with a field for each sender: `<since>:<number of the next segment>:<requested>`, then its
-- tiers in their order, each ` <segment>.<step>:<bucket>:<ms at which it was begun>:<bits>:<ids>:<hashes moved or
-- removed>:<1 if it is to be removed>`. Before `since`, ms, ids were forgotten early; 0 if never. `requested` is 1 if
-- that was on request. A hash of a tier is `<prefix>:ids:<sender>:<segment>.<step>:<number>`.

local no_id = string.rep('\0', INSERT_ID_BYTES)
local id_index, id_spaces, shortened = prefix .. ':ids', {}, {}
local id_bucket = math.floor(now / INSERT_ID_BUCKET_MS)
local id_oldest = math.floor(remembered / INSERT_ID_BUCKET_MS) - OLD_ID_BUCKETS

local function add_tier(space, tier)
  tier.hashes = space.hashes .. string.format('%.0f.%.0f:', tier.segment, tier.step)
  tier.size = 2 ^ (MAX_ID_BITS - tier.bits)
  space.tiers[#space.tiers + 1] = tier
  return tier
end
-- Parses the record of a sender's ids; `text` is its value in the index, or false.
local function read_space(name, text)
  local space = { name = name, hashes = id_index .. ':' .. name .. ':', tiers = {}, added = 0, is_changed = false }
  local since, next_segment, requested = string.match(text or '0:0:0', '^(%d+):(%d+):(%d)')
  space.since, space.next, space.requested = tonumber(since), tonumber(next_segment), tonumber(requested)
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
-- Returns the tiers that are not expired or dropped, latest first, because most repetitions follow soon.
local function living_tiers(space, except)
  local living = {}
  for i = #space.tiers, 1, -1 do
    local tier = space.tiers[i]
    if tier ~= except and not tier.dead then living[#living + 1] = tier end
  end
  return living
end
-- Returns the indexes of known ids.
local function find_ids(name, ids)
  local found, tiers = {}, living_tiers(space_of(name))
  for i = 0, #ids / INSERT_ID_BYTES - 1 do
    local id = string.sub(ids, i * INSERT_ID_BYTES + 1, (i + 1) * INSERT_ID_BYTES)
    if id ~= no_id and is_in(tiers, id, number_of(id)) then found[#found + 1] = i end
  end
  return found
end
