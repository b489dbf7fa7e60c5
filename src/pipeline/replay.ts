import type { ClickHouse } from '../clickhouse/client.js'
import { isDataError } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Entry } from '../journal/journal.js'
import { formatPosition } from '../model/position.js'
import { EntryError, rewriteEntry } from '../model/verbatim.js'
import { type DeadLetter, insertReplay, readDeadLetterBody } from '../store/dead-letters.js'
import { deleteErasedEvents, hasEventsOfEntry } from '../store/events.js'
import { latestJournal } from '../store/journals.js'
import { openTables } from '../store/tables.js'

/** The result of a replay; the reason is ClickHouse's, or that of an entry that cannot be parsed. */
export type Replay = { isStored: true } | { isStored: false; reason: string }

const NEVER_STORED = 'its messages are not events or changes; send them again as they should be'

/**
 * Stores the entry of a dead letter under the event ids that its position gives it, on the shard where the letter lies,
 * and marks the letter as replayed. Idempotent, also when run concurrently: the token prevents duplicates for as long as
 * ClickHouse remembers it, and a look for the ids prevents them after that. It looks on every shard, as events that were
 * moved with a whole store may be on another one than their letter.
 * @throws StoreError, StoreUnreachableError where the store cannot take anything now; then the replay can be retried
 */
export async function replayDeadLetter(
  shards: Shards,
  letter: DeadLetter,
  now: number,
  signal: AbortSignal,
): Promise<Replay> {
  const { position, projectId, kind, receivedAt } = letter
  if (kind === 'rejected') return { isStored: false, reason: NEVER_STORED }
  const { clickhouse } = letter.shard
  const journalId = letter.journalId || ((await latestJournal(shards.first)) ?? 0)
  const isThere = kind === 'events' && (await hasEventsOfEntry(shards, { projectId, position, journalId }))
  if (!isThere) {
    const chunks: Buffer[] = []
    for await (const chunk of await readDeadLetterBody(letter)) chunks.push(chunk)
    const entry = { position, projectId, kind, count: 0, receivedAt, body: Buffer.concat(chunks) }
    const replay = await insert(clickhouse, journalId, entry, signal)
    if (!replay.isStored) return replay
  }
  if (kind === 'events') await deleteErasedEvents(clickhouse, projectId)
  await insertReplay(letter, now)
  return { isStored: true }
}

/** As the writer does: as it is, and if ClickHouse rejects that, rewritten. */
async function insert(clickhouse: ClickHouse, journalId: number, entry: Entry, signal: AbortSignal): Promise<Replay> {
  const tables = openTables(clickhouse, { id: journalId })
  const token = `${journalId}:${formatPosition(entry.position)}:dead letter`
  try {
    await tables.insert(entry.kind, [entry], token, signal)
    return { isStored: true }
  } catch (error) {
    if (!isDataError(error)) throw error
    if (entry.kind !== 'events') return { isStored: false, reason: error.reason }
  }
  try {
    await tables.insert('events', [{ ...entry, body: rewriteEntry(entry.body) }], token, signal)
    return { isStored: true }
  } catch (error) {
    if (!isDataError(error) && !(error instanceof EntryError)) throw error
    return { isStored: false, reason: error.reason }
  }
}
