-- How much of the journal each sender holds. Needs `prefix`, `max_bytes`, and `used`, the bytes that all senders
-- hold.
local held_key, held, added = prefix .. ':held', {}, {}

-- Whether the journal is full for a write: the rule of `fullnessFor` in shares.ts.
local function fullness_for(holder, size)
  if used > max_bytes then return 'full:all' end
  if not held[holder] then held[holder] = tonumber(redis.call('HGET', held_key, holder) or 0) end
  local own = held[holder] + size
  if held[holder] == 0 or own <= max_bytes * SMALL_PART then return nil end
  local weight = string.sub(holder, 1, 7) == 'secret:' and SECRET_WEIGHT or PAGE_WEIGHT
  if own > weight * (max_bytes - used - size) then return 'full:own' end
end
local function hold(holder, size)
  used = used + size
  held[holder] = held[holder] + size
  added[holder] = (added[holder] or 0) + size
end
local function record_held()
  for holder, size in pairs(added) do redis.call('HINCRBY', held_key, holder, string.format('%.0f', size)) end
end
local function project_of(holder) return string.match(holder, ':(.*)$') end
