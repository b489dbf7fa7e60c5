import type { ClickHouse } from '../clickhouse/client.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Journal } from '../journal/journal.js'
import { formatEventId, parseEventId } from '../model/event-id.js'
import { maxPosition, type Position, START } from '../model/position.js'

/** The journal of a lane, and the shard that its writer stores on. */
export interface LaneJournal {
  /** number of the lane, from 0 */
  number: number
  shard: { number: number }
  journal: Pick<Journal, 'id' | 'advancePast'>
}

/**
 * Registers a journal as the current one of its lane. If another journal wrote to this store before, for example
 * because REDIS_URL or DATA_DIR was changed, the positions of the new journal advance past everything that is stored.
 */
export async function takeOver(shards: Shards, { number, shard, journal }: LaneJournal, now: number): Promise<void> {
  const journals = await readJournals(shards.first)
  const latest = journals.find(({ lane }) => lane === number)
  if (latest?.id === journal.id && latest.shard === shard.number) return
  if (journals.length > 0 && latest?.id !== journal.id) {
    // Detects a shard that drops every packet within 2 s.
    await shards.each(({ clickhouse }) => clickhouse.ping())
    await journal.advancePast(await findLastPosition(shards))
  }
  await recordJournal(shards.first, { id: journal.id, lane: number, shard: shard.number }, now)
}

/** @param now epoch ms, later than in the lane's previous record */
export async function recordJournal(first: ClickHouse, { id, lane, shard }: KnownJournal, now: number): Promise<void> {
  await first.command(
    'INSERT INTO journals (id, since, lane, shard) SELECT {id:UInt32}, {now:Int64}, {lane:UInt16}, {shard:UInt16}',
    { id, now, lane, shard },
  )
}

/** A journal that writes to this store, or did. */
export interface KnownJournal {
  id: number
  lane: number
  shard: number
}

/** All journals that wrote to this store; the current one of a lane precedes its earlier ones. */
export async function readJournals(first: ClickHouse): Promise<KnownJournal[]> {
  return await first.rows<KnownJournal>('SELECT id, lane, shard FROM journals ORDER BY since DESC, id')
}

/**
 * The greatest stored position of any journal, from `from` on; START if there is none. Reads a column of every table,
 * so it is only called when the journal or the Redis master has changed.
 */
export async function findLastPosition(shards: Shards, from = START): Promise<Position> {
  const positions = await shards.each(({ clickhouse }) => findShardLastPosition(clickhouse, from))
  return positions.reduce(maxPosition, START)
}

/** Allows for missing tables, because a journal is opened before the tables of a new store are created. */
async function findShardLastPosition(clickhouse: ClickHouse, from: Position): Promise<Position> {
  const tables = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM system.tables
     WHERE database = currentDatabase() AND name IN ('events', 'profiles', 'sessions', 'aliases')`,
  )
  const names = new Set(tables.map(({ name }) => name))
  const ids = names.delete('events')
    ? await clickhouse.rows<{ id: string }>(
        `SELECT toString(event_id) AS id FROM events WHERE toUInt128(event_id) >= toUInt128({first:UUID})
         ORDER BY toUInt128(event_id) DESC LIMIT 1`,
        { first: formatEventId({ position: from, index: 0, journalId: 0 }) },
      )
    : []
  const versions =
    names.size > 0
      ? await clickhouse.rows<{ version: string }>(
          [...names].map((name) => `SELECT max(version) AS version FROM ${name}`).join(' UNION ALL '),
        )
      : []
  const positions = [
    ...ids.map(({ id }) => parseEventId(id)?.position ?? START),
    ...versions.map(({ version }) => BigInt(version)),
  ]
  return positions.reduce(maxPosition, START)
}
