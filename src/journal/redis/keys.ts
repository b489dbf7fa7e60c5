/** The version of all formats in Redis. Raise it with any change of them. */
export const FORMAT = '1'

/**
 * The keys of the Redis journal. All begin with one prefix that holds a hash tag, so that they share a slot of a
 * cluster.
 *
 * Large bodies of entries do not pass through Lua, which would hash every byte and copy it three times: a third of the
 * work of Redis. They have separate keys, which SET creates with a time to live just before the script that refers to
 * them; the script removes the time to live. A body that no script refers to expires.
 *
 * Rows and states are opaque to the scripts: cjson would keep 14 digits of a number and turn `[]` into `{}`. Positions
 * are strings, `<milliseconds>-<sequence>`, which the stream orders.
 *
 * A full journal has to be drained: the scripts that the writer needs also run when Redis is out of memory.
 *
 * An entry of the stream has the fields of ENTRY. `held` has its shares of the journal, written by `formatShares`; the
 * hash `held` has the sums of all waiting entries, by sender. If the position of the entry is ahead of the clock, for
 * example because the clock was set back, `time` has the ms of the clock. `skip` has the indexes of the events that
 * were not new and must not be stored, joined by dots; an entry with `skip` also has `time`.
 *
 * A history is a run of Redis' data, which Redis names in INFO (master_replid). The name changes at each start and when
 * a replica becomes the master: the last writes may then be missing. The journal records the history to which it
 * belongs; under another one, nothing is written before initialise.lua has raised the positions.
 *
 * `meta` is a hash: id, format, history, ms and seq (the last position assigned), bytes (of the waiting entries), added
 * and settled (entries ever added and acknowledged), stored (a position), frozen (`<first> <last>`, absent if no block
 * is frozen), states (bytes of the states that the waiting entries set), layout (the version of the layout whose
 * processes may use the journal, then `>` and the next version while the layout is changed and writes are refused),
 * kept (the last position that was here when the journal adopted its history), remembered (see remembered.lua),
 * request-buckets (the buckets of time that have requests, see requests.lua), request-removed (the bucket that is being
 * removed, and how many of its hashes are).
 *
 * A stored state expires, and until then it is a cache. Redis does not report when a key expires, so the hash
 * `state-expiries` counts the bytes of expiring states by the minute in which they expire. The list `state-cache` has
 * these states in the order in which they were stored, as "<minute> <version> <key>". The first ones lose their text
 * when the cache is too large: only "<version>" remains, without the space that otherwise follows it.
 *
 * The mark of the states is removed by every step that removes states before they expire. It shares their key prefix,
 * so deleting them by a pattern removes it too. Its bytes are not counted.
 *
 * The scripts also build key names from the prefix: for bodies, states, requests (shared/requests.lua), ids
 * (shared/insert-ids.lua), and some of the keys below.
 */
export function journalKeys(prefix: string) {
  const key = (name: string) => `${prefix}:${name}`
  return {
    stream: key('journal'),
    meta: key('meta'),
    /** events that wait, by project */
    pending: key('pending'),
    /** events that were acknowledged, by project */
    acknowledged: key('acknowledged'),
    /** events that were recognised as repeated, by project */
    repeated: key('repeated'),
    /** deletions that were noted, by project */
    deletions: key('deletions'),
    /** the writer's lease */
    lease: key('writer'),
    /** a `home` writer that asks for the lease; see claim.lua */
    wanted: key('writer-wanted'),
    /** the last writer that found the lease held by another one; see yield.lua */
    asked: key('writer-asked'),
    expiries: key('state-expiries'),
    cache: key('state-cache'),
    held: key('held'),
    mark: stateKey(prefix, 'mark'),
  }
}

export type JournalKeys = ReturnType<typeof journalKeys>

/** @param name a digest, or "mark" */
export function stateKey(prefix: string, name: string): string {
  return `${prefix}:state:${name}`
}

/** The key that holds the body of an entry of the stream. */
export function bodyKey(prefix: string, name: string): string {
  return `${prefix}:body:${name}`
}
