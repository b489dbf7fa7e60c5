import type { StateTable } from '../store/tables.js'
import type { StoredValue } from '../store/versioned.js'

/**
 * How long it is remembered what the store has of a name, ms. What is changed meanwhile is found in the journal, which
 * keeps a state for STATE_MEMORY_MS (10 min) after it is stored and is always asked first; the rest is for the time of the
 * reading itself and for clocks that are set.
 */
const MEMORY_MS = 3 * 60_000
/** Names in each of two generations. */
const MAX_NAMES = 20_000

interface Read<Value> {
  /** by both clocks, as the one stands still in a machine that is suspended, and the other may be set */
  at: number
  dateAt: number
  /** of the journal */
  era: number
  found: StoredValue<Value> | undefined
}

/** A table that remembers for some minutes what it has read, what it has not found included. For small values only. */
export function withRecentReads<Value>(
  table: StateTable<Value>,
  journal: { readonly era: number },
  { maxNames = MAX_NAMES, now = () => performance.now(), date = Date.now } = {},
): StateTable<Value> {
  let young = new Map<string, Read<Value>>()
  let old = new Map<string, Read<Value>>()
  const isFresh = ({ at, dateAt, era }: Read<Value>) => {
    const age = Math.max(now() - at, Math.abs(date() - dateAt))
    // After a loss, the journal may lack what the store has.
    return age < MEMORY_MS && era === journal.era
  }
  return {
    ...table,
    async read(projectId, names, maxBytes) {
      const results = new Map<string, StoredValue<Value>>()
      const missing: string[] = []
      for (const name of names) {
        const key = `${projectId}\0${name}`
        const known = young.get(key) ?? old.get(key)
        if (!known || !isFresh(known)) missing.push(name)
        else if (known.found) results.set(name, known.found)
      }
      if (missing.length === 0) return results
      const reading = { at: now(), dateAt: date(), era: journal.era }
      const found = await table.read(projectId, missing, maxBytes)
      for (const name of missing) {
        const value = found.get(name)
        if (value) results.set(name, value)
        if (young.size >= maxNames) [old, young] = [young, new Map()]
        young.set(`${projectId}\0${name}`, { ...reading, found: value })
      }
      return results
    },
  }
}
