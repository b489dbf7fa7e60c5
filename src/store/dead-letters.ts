import type { Readable } from 'node:stream'
import type { ClickHouse } from '../clickhouse/client.js'
import { literal, QueryParameters } from '../clickhouse/parameters.js'
import type { Entry, EntryKind } from '../journal/journal.js'
import type { Position } from '../model/position.js'

/** An entry that ClickHouse rejected, without its body, which may be as large as a request. */
export interface DeadLetter {
  position: Position
  /** the journal that gave the position; 0 where that was not written down yet */
  journalId: number
  projectId: string
  kind: EntryKind
  /** ClickHouse's error */
  reason: string
  /** bytes of the body */
  size: number
  /** epoch milliseconds */
  receivedAt: number
}

/** Stores a rejected entry verbatim with the reason, so that it can be inspected and replayed. */
export async function insertDeadLetter(
  clickhouse: ClickHouse,
  journalId: number,
  { projectId, position, kind, receivedAt, body }: Entry,
  reason: string,
  token: string,
): Promise<void> {
  const fields = new QueryParameters()
  const values = [
    fields.text(projectId),
    `${position}`,
    fields.text(kind),
    fields.text(reason),
    literal(body),
    `${receivedAt}`,
    `${journalId}`,
  ]
  await clickhouse.command(
    `INSERT INTO dead_letters (project_id, position, kind, reason, body, received_at, journal_id) SELECT ${values.join(', ')}`,
    fields.parameters,
    { insert_deduplication_token: token, deduplicate_insert_select: 'force_enable' },
  )
}

interface LetterRow {
  position: string
  journal_id: number
  project_id: string
  kind: EntryKind
  reason: string
  size: string
  received_at: string
}

/** Of the rows that a letter has while somebody is erased from it, the one that counts. */
const IS_CURRENT = `(journal_id, position, revision) IN (
    SELECT journal_id, position, max(revision) FROM dead_letters GROUP BY journal_id, position)`

const WAITING = `${IS_CURRENT}
  AND (journal_id, position) NOT IN (SELECT journal_id, position FROM dead_letter_replays)`

/** The letters that were not replayed, oldest first: up to `limit`, after one of them or at one position where that is given. */
export async function readDeadLetters(
  clickhouse: ClickHouse,
  { limit, after, at }: { limit: number; after?: DeadLetter; at?: Position },
): Promise<DeadLetter[]> {
  const rows = await clickhouse.rows<LetterRow>(
    `SELECT position, journal_id, project_id, kind, reason, length(body) AS size, received_at
     FROM dead_letters
     WHERE ${WAITING}
       ${after ? 'AND (position, journal_id) > ({position:UInt64}, {journal:UInt32})' : ''}
       ${at === undefined ? '' : 'AND position = {at:UInt64}'}
     ORDER BY position, journal_id
     LIMIT {limit:UInt32}`,
    {
      limit,
      ...(after && { position: after.position, journal: after.journalId }),
      ...(at !== undefined && { at }),
    },
  )
  return rows.map((row) => ({
    position: BigInt(row.position),
    journalId: row.journal_id,
    projectId: row.project_id,
    kind: row.kind,
    reason: row.reason,
    size: Number(row.size),
    receivedAt: Number(row.received_at),
  }))
}

export async function countDeadLetters(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.rows<{ count: string }>(`SELECT count() AS count FROM dead_letters WHERE ${WAITING}`)
  return Number(row?.count ?? 0)
}

/** The bytes of a letter's body, as they came from the journal. */
export async function readDeadLetterBody(clickhouse: ClickHouse, letter: DeadLetter): Promise<Readable> {
  return await clickhouse.bytes(
    `SELECT body FROM dead_letters
     WHERE position = {position:UInt64} AND journal_id = {journal:UInt32}
     ORDER BY revision DESC LIMIT 1 FORMAT RawBLOB`,
    { position: letter.position, journal: letter.journalId },
  )
}

/** Marks a letter as replayed; it is no longer listed. */
export async function insertReplay(
  clickhouse: ClickHouse,
  { journalId, position }: Pick<DeadLetter, 'journalId' | 'position'>,
  now: number,
): Promise<void> {
  await clickhouse.command('INSERT INTO dead_letter_replays SELECT {journal:UInt32}, {position:UInt64}, {now:Int64}', {
    journal: journalId,
    position,
    now,
  })
}
