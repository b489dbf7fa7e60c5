/** The version of all formats in Redis. Change it with any of them. */
export const FORMAT = '1'

/**
 * The keys of the Redis journal. All begin with one prefix that holds a hash tag, so that they share a slot of a cluster.
 *
 * The events of an entry do not pass through Lua, which would hash every byte of them and copy them three times: a third
 * of all the work that Redis does. They are in a key of their own, which SET creates with a time to live just before the
 * script that refers to it; the script removes the time to live. A body that no script refers to expires.
 *
 * Rows and states are opaque to the scripts: cjson would keep 14 digits of a number and turn `[]` into `{}`. Positions are
 * strings, `<milliseconds>-<sequence>`, which the stream orders.
 *
 * A full journal has to be drained: the scripts that the writer needs also run when Redis is out of memory.
 *
 * An entry of the stream has the fields of ENTRY. `held` says which sender holds how much of the journal by it, as
 * `formatShares` writes it; the hash `held` has the sums of all that waits, by sender. If the clock is behind the position of
 * the entry, as after a moment in which it was fast, `time` has the ms of the clock; it is also there before `skip`, which
 * has the indexes of the events, joined by dots, that were not new and are not to be stored.
 *
 * Redis names the run of its data, its history (master_replid in INFO), and takes another name when a replica becomes the
 * master and at each start: then the last writes may be missing. The journal records the history to which it belongs; under
 * another one nothing is written before initialise.lua has raised the positions.
 *
 * `meta` is a hash: id, format, history, ms and seq (the last position assigned), bytes (of the entries that are there), added and
 * settled (entries ever added and acknowledged), stored (a position), frozen (`<first> <last>`, absent if no block is
 * frozen), states (bytes of the states that these entries set), layout (the version of the layout whose processes may use
 * the journal, then `>` and the next one while that is made and no writes are let in), kept (the last position that was here
 * when the history became the journal's), remembered (see remembered.lua), request-buckets (the buckets
 * of time that have requests, see requests.lua), request-removed (the one that is being removed, and how many of its hashes
 * are).
 *
 * A state that is stored expires, and until then it is a cache. Redis does not report when a key expires, so the hash
 * `state-expiries` counts the bytes of the states that will, by the minute in which they do. The list `state-cache` has them
 * in the order in which they were stored, as "<minute> <version> <key>". The first ones lose their text when the cache is
 * too large: what is left is "<version>" without the space that otherwise follows it.
 *
 * Among the states is their mark, which every step that removes some of them before they expire removes as well. Its name
 * is like theirs, so it disappears if somebody deletes them by a pattern. Its bytes are not counted.
 *
 * The scripts also build names from the prefix: those of the many keys of bodies, states, requests (shared/requests.lua) and
 * ids (shared/insert-ids.lua), and some that are below.
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
    /** the writer at home that asks for the lease */
    wanted: key('writer-wanted'),
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
