-- Remembers insert_ids. Needs insert-ids.lua, and `max_ids`, by class of key, if ids are taken.

-- Removes hashes that are no longer needed, up to a limit. Returns the rest of the limit.
local function remove_ids(space, limit)
  local i = 1
  while limit > 0 and i <= #space.tiers do
    local tier = space.tiers[i]
    if tier.dead then
      local last = math.min(2 ^ tier.bits, tier.removed + limit)
      limit = limit - (last - tier.removed)
      while tier.removed < last do
        -- Lua can pass a few thousand arguments.
        local hashes, to = {}, math.min(last, tier.removed + 1000)
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

-- Drops the oldest segment other than `except`, and records since when ids are remembered. Returns false if there is
-- no other segment.
local function drop_oldest(space, except)
  local oldest, after = nil, nil
  for _, tier in ipairs(space.tiers) do
    if not tier.dead then
      if not oldest and tier.segment ~= except then oldest = tier.segment
      elseif oldest and tier.segment ~= oldest and not after then after = tier.start end
    end
  end
  if not oldest then return false end
  for _, tier in ipairs(space.tiers) do
    if tier.segment == oldest and not tier.dead then tier.dead, space.is_changed = true, true end
  end
  if space.since == 0 or now - space.since >= INSERT_ID_MEMORY_MS then shortened[#shortened + 1] = space.name end
  space.since, space.requested = after or now, 0
  return true
end

-- The tier that takes the ids of a bucket.
local function tier_of(space, bucket, max)
  -- A tier is full when its hashes have this many ids on average: Redis keeps a hash of up to 512 as a listpack.
  local full = 128
  local newest, counts, before = nil, {}, 0
  for _, tier in ipairs(space.tiers) do
    if not tier.dead then
      counts[tier.segment] = (counts[tier.segment] or 0) + tier.count
      before = counts[tier.segment]
      if tier.bucket == bucket then newest = tier end
    end
  end
  if newest and counts[newest.segment] >= max / 2 then newest = nil end
  if newest and (newest.count < full * 2 ^ newest.bits or newest.bits == MAX_ID_BITS) then return newest end
  if newest then
    local tier = add_tier(space, {
      segment = newest.segment, step = newest.step + 1, bucket = bucket, start = newest.start,
      bits = math.min(MAX_ID_BITS, newest.bits + 4), count = 0, removed = 0
    })
    table.sort(space.tiers, function(a, b)
      return a.segment < b.segment or (a.segment == b.segment and a.step < b.step)
    end)
    return tier
  end
  local bits = 0
  while bits < MAX_ID_BITS and before > full * 2 ^ bits do bits = bits + 1 end
  space.next = space.next + 1
  return add_tier(space, {
    segment = space.next, step = 1, bucket = bucket, start = now, bits = bits, count = 0, removed = 0
  })
end

-- Moves some ids of the first tier that has a next one in its segment: a hash for 64 new ids, which is about two ids
-- per new one.
local function move_ids(space, count)
  for i, tier in ipairs(space.tiers) do
    local target = nil
    for j = i + 1, #space.tiers do
      if space.tiers[j].segment == tier.segment then target = space.tiers[j] end
    end
    if target and not tier.dead then
      local last = math.min(2 ^ tier.bits, tier.removed + math.ceil(count / 64))
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

-- Remembers ids. Returns the indexes of ids that were known.
local function take_ids(name, ids, bucket)
  local space, max = space_of(name), max_ids[string.match(name, '^%a+')]
  local known, newest = {}, tier_of(space, bucket, max)
  local others, added = living_tiers(space, newest), 0
  for i = 0, #ids / INSERT_ID_BYTES - 1 do
    local id = string.sub(ids, i * INSERT_ID_BYTES + 1, (i + 1) * INSERT_ID_BYTES)
    if id ~= no_id then
      local number = number_of(id)
      local hash = newest.hashes .. math.floor(number / newest.size)
      if is_in(others, id, number) or redis.call('HSETNX', hash, id, '') == 0 then
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

-- Removes some hashes that are no longer needed, then records the changes.
local function record_ids()
  for name, space in pairs(id_spaces) do
    if space.added > 0 then remove_ids(space, 64 + math.ceil(space.added / 8)) end
    if space.is_changed then
      local texts = { string.format('%.0f:%.0f:%d', space.since, space.next, space.requested) }
      for i, tier in ipairs(space.tiers) do
        texts[i + 1] = string.format('%.0f.%.0f:%.0f:%.0f:%.0f:%.0f:%.0f:%d', tier.segment, tier.step, tier.bucket,
          tier.start, tier.bits, tier.count, tier.removed, tier.dead and 1 or 0)
      end
      if #space.tiers == 0 and now - space.since >= INSERT_ID_MEMORY_MS then redis.call('HDEL', id_index, name)
      else redis.call('HSET', id_index, name, table.concat(texts, ' ')) end
    end
  end
end
