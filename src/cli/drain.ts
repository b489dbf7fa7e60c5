import { setTimeout as wait } from 'node:timers/promises'
import { StoreError } from '../clickhouse/errors.js'
import { Writer } from '../ingest/writer.js'
import { readJournalRows } from '../store/dump.js'
import { openTables } from '../store/tables.js'
import { counted } from './progress.js'
import { type BareLane, type WholeStore, waitingIn } from './whole-store.js'

/** How long a journal may make no progress before the command gives up. */
const STUCK_MS = 30_000
const POLL_MS = 100

/**
 * Stores the entries waiting in the journals.
 * @throws Error if one is not the journal of this store, or ClickHouse does not accept its entries
 */
export async function drain(
  { shards, lanes, place }: WholeStore,
  report: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const journals = await readJournalRows(shards.first)
  for (const { number, journal } of lanes) {
    const latest = journals.findLast(({ lane }) => lane === number)
    if (!latest || latest.id === journal.id) continue
    throw new Error(`The store at ${place} belongs to another journal. Set REDIS_URL or DATA_DIR as for the service.`)
  }
  const entries = await waitingIn(lanes)
  if (entries === 0) return
  report(`Storing the journal first: ${counted(entries, 'request')}.`)
  const results = await Promise.allSettled(lanes.map((lane) => drainLane(lane, signal)))
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

async function drainLane({ shard, journal }: BareLane, signal: AbortSignal): Promise<void> {
  let { entries } = await journal.depth()
  if (entries === 0) return
  let failure = ''
  const remember = ({ err }: { err?: Error }) => {
    if (err) failure = ` (${err instanceof StoreError ? err.reason : err.message})`
  }
  const log = { info() {}, warn: remember, error: remember }
  const writer = new Writer({ journal, tables: openTables(shard.clickhouse, journal), log })
  const { appended } = await journal.progress()
  writer.start()
  try {
    for (let stuckSince = performance.now(); entries > 0; ) {
      await wait(POLL_MS)
      if (signal.aborted) return
      if ((await journal.progress()).appended !== appended) {
        throw new Error('The service still accepts requests. Stop all of its processes and rerun the command.')
      }
      const now = (await journal.depth()).entries
      if (now !== entries) stuckSince = performance.now()
      entries = now
      if (performance.now() - stuckSince > STUCK_MS) {
        throw new Error(
          `ClickHouse does not accept what is left in the journal: ${counted(entries, 'request')}${failure}.`,
        )
      }
    }
  } finally {
    await writer.close()
  }
}
