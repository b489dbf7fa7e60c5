#!lua flags=allow-oom
-- Takes the writer's lease and freezes the next block, or returns the frozen one. It does not read the entries: the
-- writer does.
--
-- With several lanes, each has `home` writers, which prefer it, and `guest` writers, which yield: a guest neither
-- takes nor keeps the lease if a home writer has asked for it within the duration of a lease. Whoever finds the lease
-- taken is noted, because a writer that cannot store its block only yields to one that is waiting.
--
-- Returns nil if another writer holds the lease or may take it, or if nothing waits; else { "<first> <last>", 1 if
-- the block was frozen before or 0 if it is the writer's run }; or, if none is frozen and the run is not next, { "",
-- 0, the stored position, how many entries were ever added before the next one }.
--- include shared/refusal
local stream, meta, lease, wanted, asked = KEYS.stream, KEYS.meta, KEYS.lease, KEYS.wanted, KEYS.asked
local writer = ARGV.writer
local id, layout, frozen, stored, settled =
  unpack(redis.call('HMGET', meta, 'id', 'layout', 'frozen', 'stored', 'settled'))
local refused = refusal(id, layout)
if refused then return refused end

local holder = redis.call('GET', lease)
local is_taken = holder and holder ~= writer
if is_taken then redis.call('SET', asked, writer, 'PX', ARGV.leaseMs) end
if ARGV.place == 'home' and is_taken then
  redis.call('SET', wanted, writer, 'PX', ARGV.leaseMs)
elseif ARGV.place == 'guest' and redis.call('EXISTS', wanted) == 1 then
  if holder == writer then redis.call('DEL', lease) end
  return nil
end
if is_taken then return nil end
redis.call('SET', lease, writer, 'PX', ARGV.leaseMs)

if frozen then return { frozen, 1 } end
local oldest = redis.call('XRANGE', stream, '(' .. stored, '+', 'COUNT', 1)[1]
if not oldest then return nil end
if ARGV.addedBefore == settled then
  local first, last = string.match(ARGV.run, '^(%S+) (%S+)$')
  -- In a journal that lost its end, the counts may match although the entries differ.
  if oldest[1] == first and redis.call('XRANGE', stream, last, last)[1] then
    redis.call('HSET', meta, 'frozen', ARGV.run)
    return { ARGV.run, 0 }
  end
end
return { '', 0, stored, settled }
