import { SMALL_PART, WEIGHTS } from '../../shares.js'

/**
 * The scripts of the Redis journal, each one atomic, and the layout of its keys. All keys begin with one prefix that
 * holds a hash tag, so that they share a slot of a cluster; the scripts build the state, request and body keys from it.
 *
 * The events of an entry do not pass through Lua, which would hash every byte of them and copy them three times: a third
 * of all the work that Redis does. They are in a key of their own, which SET creates with a time to live just before the
 * script that refers to it; the script removes the time to live. A body that no script refers to expires.
 *
 * Rows and states are opaque here: cjson would keep 14 digits of a number and turn `[]` into `{}`. Positions are
 * texts, `<milliseconds>-<sequence>`, which the stream orders; the scripts compare them for equality only.
 *
 * A full journal has to be drained: the scripts that the writer needs also run where Redis is out of memory.
 *
 * An entry of the stream has the fields kind, held, count, bytes, and then either `body` with the rows themselves or
 * `at` with the name of the key that holds the events. `held` says who holds how much of the journal by it, as `formatShares`
 * writes it; the sums of all that wait are in the hash `held`, by sender. Where the clock is behind the entry's position, as
 * after a moment in which it was fast, a field `time` has the ms of the clock; it is there, too, before a last field `skip`,
 * which has the indexes of those events, joined by dots, that were not new and are not to be stored.
 *
 * Redis gives the run of its data a name, its history (master_replid in INFO), and draws another one where a replica
 * becomes the master and at each start: then the last writes may be missing. The journal records the history to which it
 * belongs; under another one nothing is written before INITIALISE has raised the positions.
 *
 * meta is a hash: id, format (the version of all formats; another one is refused), history, ms and seq (the last position
 * assigned), bytes (of the entries that are there), added and settled (entries ever added and acknowledged), stored (a
 * position), frozen (`<first> <last>`, absent where no block is frozen), states (bytes of the states that the entries which
 * are there set), layout (the version of the layout whose processes may use it, then `>` and the next one while that is made
 * and no writes are let in; absent: 1), remembered (see REMEMBERED).
 *
 * A state that is stored expires, and until then it is a cache. Redis does not report when a key expires, so a hash of its own
 * counts the bytes of the states that will, by the minute in which they do. The list `state-cache` has them in the order in
 * which they were stored, as "<minute> <version> <key>". The first ones lose their text when the cache is too large: what is
 * left is "<version>" without the space that follows it otherwise.
 *
 * Among the states is their mark, which every step that removes some of them before they expire removes as well. Being
 * named like them, it goes where somebody deletes them by a pattern. Its bytes are not counted.
 */

/** The last part of the mark's key; in the keys of states this is a digest. */
export const STATES_MARK = 'mark'

/** Lua: `now`, the clock of Redis in ms. */
export const NOW = `local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)`

/**
 * Lua: `remembered`, the time in ms by which ids are forgotten. What is forgotten is gone, so a clock of Redis that is wrong
 * for an hour must not decide it: this one is never ahead of that, and goes on only as SWEEP_INSERT_IDS is told that time
 * passes. Where there is none yet, it is the clock of Redis.
 */
export const REMEMBERED = `local remembered = math.min(now, tonumber(redis.call('HGET', meta, 'remembered') or now))`

/** Lua: forgets the states that have expired, and returns the bytes of those that will. `now` is in ms. */
export const CACHED_STATES = `
local function cached_states(expiries, now)
  local cached, counts = 0, redis.call('HGETALL', expiries)
  for i = 1, #counts, 2 do
    if (tonumber(counts[i]) + 1) * 60000 > now then cached = cached + tonumber(counts[i + 1])
    else redis.call('HDEL', expiries, counts[i]) end
  end
  return cached
end
`

/** Lua: takes a state that will be replaced or removed off the count `expiries`. */
export const REPLACED_STATES = `
local function uncount(state_key)
  local expires = redis.call('PEXPIRETIME', state_key)
  if expires > 0 then
    local minute = string.format('%.0f', math.floor(expires / 60000))
    -- At most what is counted, which is forgotten when the minute is over.
    local size = math.min(redis.call('STRLEN', state_key), tonumber(redis.call('HGET', expiries, minute) or 0))
    -- Lua spells the negative of 0 as -0, which Redis takes for no integer.
    if size > 0 then redis.call('HINCRBY', expiries, minute, -size) end
  end
end
`

/**
 * Lua: who holds how much of the journal. Needs `prefix`, `max_bytes`, and `used`, the bytes that all hold together. Says for
 * a write whether it is full, as `fullnessFor` does.
 */
export const SHARES = `
local held_key, held, added = prefix .. ':held', {}, {}
local function fullness_for(holder, size)
  if used > max_bytes then return 'full:all' end
  if not held[holder] then held[holder] = tonumber(redis.call('HGET', held_key, holder) or 0) end
  local own = held[holder] + size
  if held[holder] == 0 or own <= max_bytes * ${SMALL_PART} then return nil end
  local weight = string.sub(holder, 1, 7) == 'secret:' and ${WEIGHTS.secret} or ${WEIGHTS.page}
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
`
