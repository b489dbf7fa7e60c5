import type { ClickHouse } from '../clickhouse/client.js'
import type { Journal } from '../journal/journal.js'
import { formatEventId, parseEventId } from '../model/event-id.js'
import { laterOf, type Position, START } from '../model/position.js'

/**
 * Makes a journal the one that writes to this store. Where another did before, as when REDIS_URL was set or the data
 * folder was changed in between, the journal's positions advance past everything that is stored.
 */
export async function takeOver(clickhouse: ClickHouse, journal: Journal, now: number): Promise<void> {
  const latest = await latestJournal(clickhouse)
  if (latest === journal.id) return
  if (latest !== null) await journal.advancePast(await lastPositionOfAll(clickhouse))
  await clickhouse.command('INSERT INTO journals SELECT {id:UInt32}, {now:Int64}', { id: journal.id, now })
}

/** The journal that writes to this store; null where none has yet. */
export async function latestJournal(clickhouse: ClickHouse): Promise<number | null> {
  const [row] = await clickhouse.rows<{ id: number }>('SELECT id FROM journals ORDER BY since DESC, id LIMIT 1')
  return row?.id ?? null
}

/**
 * The last position from `from` on that anything in the store has, of whichever journal; START where nothing has. Reads a
 * column of every table, which is done only when the journal has changed or Redis has.
 */
export async function lastPositionOfAll(clickhouse: ClickHouse, from = START): Promise<Position> {
  const events = await clickhouse.rows<{ id: string }>(
    `SELECT toString(event_id) AS id FROM events WHERE toUInt128(event_id) >= toUInt128({first:UUID})
     ORDER BY toUInt128(event_id) DESC LIMIT 1`,
    { first: formatEventId({ position: from, index: 0, journalId: 0 }) },
  )
  const rows = await clickhouse.rows<{ version: string }>(
    'SELECT max(version) AS version FROM profiles UNION ALL SELECT max(version) FROM sessions',
  )
  const positions = [
    ...events.map(({ id }) => parseEventId(id)?.position ?? START),
    ...rows.map((row) => BigInt(row.version)),
  ]
  return positions.reduce(laterOf, START)
}
