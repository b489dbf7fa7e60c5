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
 * An entry of the stream has the fields kind, project, count, bytes, and then either `body` with the rows themselves or
 * `at` with the name of the key that holds the events. Where the clock is behind the entry's position, as after a moment
 * in which it was fast, a field `time` has the ms of the clock; it is there, too, before a last field `skip`, which has the
 * indexes of those events, joined by dots, that were not new and are not to be stored.
 *
 * Redis gives the run of its data a name, its history (master_replid in INFO), and draws another one where a replica
 * becomes the master and at each start: then the last writes may be missing. The journal records the history to which it
 * belongs; under another one nothing is written before INITIALISE has raised the positions.
 *
 * meta is a hash: id, history, ms and seq (the last position assigned), bytes (of the entries that are there), added and
 * settled (entries ever added and acknowledged), stored (a position), frozen (`<first> <last>`, absent where no block is
 * frozen), states (bytes of the states that are there, or were until they expired), layout (the version of the layout whose
 * processes may use it, then `>` and the next one while that is made and no writes are let in; absent: 1), remembered (see
 * REMEMBERED).
 *
 * Redis does not report when a key expires, so a hash of its own counts the bytes of the states that will expire, by the
 * minute in which they do.
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

/** Lua: a function for the bytes of states that have expired and are still counted; `now` is in ms. */
export const EXPIRED_STATES = `
local function expired_states(expiries, now, is_forgotten)
  local expired, counts = 0, redis.call('HGETALL', expiries)
  for i = 1, #counts, 2 do
    if (tonumber(counts[i]) + 1) * 60000 <= now then
      expired = expired + tonumber(counts[i + 1])
      if is_forgotten then redis.call('HDEL', expiries, counts[i]) end
    end
  end
  return expired
end
`

/** Lua: takes states off the counts `states` and `expiries` that will be replaced. */
export const REPLACED_STATES = `
-- Takes a state that will be replaced off the counts.
local function uncount(state_key)
  local size, expires = redis.call('STRLEN', state_key), redis.call('PEXPIRETIME', state_key)
  if expires > 0 then
    -- At most what is counted: a state that an earlier version of the service wrote never was.
    local minute = string.format('%.0f', math.floor(expires / 60000))
    size = math.min(size, tonumber(redis.call('HGET', expiries, minute) or 0))
    -- Lua spells the negative of 0 as -0, which Redis takes for no integer.
    if size > 0 then redis.call('HINCRBY', expiries, minute, -size) end
  end
  states = math.max(0, states - size)
end
`
