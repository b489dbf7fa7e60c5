import { RecentValues } from '../lib/recent-values.js'
import type { StateTable } from '../store/tables.js'
import type { StoredValue } from '../store/versioned-table.js'

/**
 * How long a value read from ClickHouse is reused, ms. A change in the meantime is found in the journal, which is
 * always asked first and keeps a state for STATE_MEMORY_MS (10 min) after it is stored; the difference allows for the
 * duration of the read and for changes of the clocks.
 */
const MEMORY_MS = 3 * 60_000
/** Maximum number of names in each of two generations. */
const MAX_NAMES = 20_000

interface Read<Value> {
  /** times by both clocks: the monotonic one stops while the machine is suspended, the other one may be set */
  at: number
  dateAt: number
  /** era of the journal */
  era: number
  found: StoredValue<Value> | undefined
}

/** A table with a cache of the last minutes' reads, including names without a value. For small values only. */
export function withRecentReads<Value>(
  table: StateTable<Value>,
  journal: { readonly era: number },
  { maxNames = MAX_NAMES, now = () => performance.now(), date = Date.now } = {},
): StateTable<Value> {
  const reads = new RecentValues<Read<Value>>(maxNames)
  const isYoung = ({ at, dateAt, era }: Read<Value>) => {
    const age = Math.max(now() - at, Math.abs(date() - dateAt))
    // In another era the journal may have lost changes that ClickHouse has.
    return age < MEMORY_MS && era === journal.era
  }
  return {
    ...table,
    async read(projectId, names, maxBytes, isFresh = false) {
      const results = new Map<string, StoredValue<Value>>()
      const missing: string[] = []
      for (const name of names) {
        const key = `${projectId}\0${name}`
        const known = reads.get(key)
        if (isFresh || !known || !isYoung(known)) missing.push(name)
        else if (known.found) results.set(name, known.found)
      }
      if (missing.length === 0) return results
      const reading = { at: now(), dateAt: date(), era: journal.era }
      const found = await table.read(projectId, missing, maxBytes, isFresh)
      for (const name of missing) {
        const value = found.get(name)
        if (value) results.set(name, value)
        reads.set(`${projectId}\0${name}`, { ...reading, found: value })
      }
      return results
    },
  }
}
