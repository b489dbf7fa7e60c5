import type { Readable } from 'node:stream'
import type { ClickHouse } from '../clickhouse/client.js'
import { type ClickHouseSettings, literal } from '../clickhouse/parameters.js'
import type { Shard, Shards } from '../clickhouse/shards.js'
import type { Entry, EntryKind } from '../journal/journal.js'
import { type Position, START } from '../model/position.js'
import { parseRejected } from '../model/rejected.js'
import { deduplicateBy } from './insert.js'

/** An entry that ClickHouse rejected, without its body, which may be as large as a request. */
export interface DeadLetter {
  /** the shard with the dead letter, its revisions and its replay: the shard of its lane when it was rejected */
  shard: Shard
  position: Position
  /** id of the journal that assigned the position */
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
  { projectId: project, position, kind, count, receivedAt, body }: Entry,
  reason: string,
  token: string,
): Promise<void> {
  await clickhouse.command(
    `INSERT INTO dead_letters (project_id, position, kind, reason, body, received_at, journal_id, event_count)
     SELECT {project:String}, {position:UInt64}, {kind:String}, ${literal(reason)}, ${literal(body)},
       {receivedAt:Int64}, {journal:UInt32}, {count:UInt32}`,
    { project, position, kind, receivedAt, journal: journalId, count },
    deduplicateBy(token),
  )
}

/** Bytes of bodies in one statement; a single body may be larger. */
const STATEMENT_BYTES = 1024 * 1024

/**
 * Stores entries of kind `rejected` as dead letters. Skips entries that are already stored, because a block may be
 * inserted again under another token.
 */
export async function insertRejected(
  clickhouse: ClickHouse,
  journalId: number,
  entries: readonly Entry[],
  token: string,
): Promise<void> {
  for (let start = 0; start < entries.length; ) {
    let bytes = 0
    let end = start
    while (end < entries.length && (bytes === 0 || bytes < STATEMENT_BYTES)) bytes += entries[end++]?.body.length ?? 0
    await insertSomeRejected(clickhouse, journalId, entries.slice(start, end), `${token}:rejected from ${start}`)
    start = end
  }
}

async function insertSomeRejected(
  clickhouse: ClickHouse,
  journalId: number,
  entries: readonly Entry[],
  token: string,
): Promise<void> {
  const rows = entries.map(({ projectId, position, kind, receivedAt, body }) => {
    const values = [literal(projectId), `toUInt64(${position})`, literal(kind), literal(parseRejected(body).reason)]
    return `(${[...values, literal(body), `toInt64(${receivedAt})`].join(', ')})`
  })
  await clickhouse.command(
    `INSERT INTO dead_letters (project_id, position, kind, reason, body, received_at, journal_id)
     SELECT r.1, r.2, r.3, r.4, r.5, r.6, {journal:UInt32} FROM (SELECT arrayJoin([${rows.join(', ')}]) AS r)
     WHERE r.2 NOT IN (
       SELECT position FROM dead_letters
       WHERE journal_id = {journal:UInt32} AND position BETWEEN {first:UInt64} AND {last:UInt64})`,
    { journal: journalId, first: entries[0]?.position ?? START, last: entries.at(-1)?.position ?? START },
    deduplicateBy(token),
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

/** Condition for the current row of a dead letter, which has several revisions while a user is being erased from it. */
const IS_CURRENT = `(journal_id, position, revision) IN (
    SELECT journal_id, position, max(revision) FROM dead_letters GROUP BY journal_id, position)`

const WAITING = `${IS_CURRENT}
  AND (journal_id, position) NOT IN (SELECT journal_id, position FROM dead_letter_replays)`

/** Positions are passed as strings, because they exceed the numbers allowed in an array parameter. */
const IS_AT = 'position IN (SELECT arrayJoin(arrayMap(text -> toUInt64(text), {at:Array(String)})))'

/** Dead letters that `walkDeadLetters` reads at a time. */
const PAGE = 100

/** Limits of a page of dead letters. */
interface DeadLetterRange {
  limit: number
  after?: Pick<DeadLetter, 'position' | 'journalId'>
  at?: readonly Position[]
  /** default: all projects */
  projectId?: string
  /** default: all kinds */
  kind?: EntryKind
}

/**
 * The dead letters of all shards that were not replayed, oldest first: up to `limit`, optionally only those after a
 * given one or at given positions.
 */
export async function readDeadLetters(shards: Shards, page: DeadLetterRange): Promise<DeadLetter[]> {
  const deadLetters = (await shards.each((shard) => readShardDeadLetters(shard, page))).flat()
  return deadLetters.sort(compareByPosition).slice(0, page.limit)
}

/** All dead letters that were not replayed, oldest first. They may be replayed in the meantime. */
export async function* walkDeadLetters(
  shards: Shards,
  range: Pick<DeadLetterRange, 'after' | 'kind'> = {},
): AsyncGenerator<DeadLetter> {
  for (let page = range; ; ) {
    const letters = await readDeadLetters(shards, { ...page, limit: PAGE })
    yield* letters
    const last = letters.at(-1)
    if (!last) return
    page = { ...range, after: last }
  }
}

function compareByPosition(a: DeadLetter, b: DeadLetter): number {
  if (a.position !== b.position) return a.position < b.position ? -1 : 1
  return a.journalId - b.journalId
}

async function readShardDeadLetters(
  shard: Shard,
  { limit, after, at, projectId, kind }: DeadLetterRange,
): Promise<DeadLetter[]> {
  const rows = await shard.clickhouse.rows<LetterRow>(
    `SELECT position, journal_id, project_id, kind, reason, length(body) AS size, received_at
     FROM dead_letters
     WHERE ${WAITING}
       ${after ? 'AND (position, journal_id) > ({position:UInt64}, {journal:UInt32})' : ''}
       ${at ? `AND ${IS_AT}` : ''}
       ${projectId === undefined ? '' : 'AND project_id = {project:String}'}
       ${kind === undefined ? '' : 'AND kind = {kind:String}'}
     ORDER BY position, journal_id
     LIMIT {limit:UInt32}`,
    {
      limit,
      ...(after && { position: after.position, journal: after.journalId }),
      ...(at && { at: at.map(String) }),
      ...(projectId !== undefined && { project: projectId }),
      ...(kind !== undefined && { kind }),
    },
  )
  return rows.map((row) => ({
    shard,
    position: BigInt(row.position),
    journalId: row.journal_id,
    projectId: row.project_id,
    kind: row.kind,
    reason: row.reason,
    size: Number(row.size),
    receivedAt: Number(row.received_at),
  }))
}

/**
 * A body can have 17 MB, and a list shows only its beginning. So ClickHouse reads one at a time, and truncates it
 * before sorting.
 */
const ONE_BODY: ClickHouseSettings = {
  max_threads: 1,
  max_block_size: '1',
  preferred_block_size_bytes: '1',
  query_plan_execute_functions_after_sorting: 0,
}

/** A dead letter as its project sees it. */
export interface ListedDeadLetter extends Pick<DeadLetter, 'position' | 'kind' | 'reason' | 'receivedAt'> {
  /** epoch milliseconds; null if it was not replayed */
  replayedAt: number | null
  /** the beginning of its body, which contains no API key */
  entry: string
}

interface ListedRow extends Omit<LetterRow, 'project_id' | 'size'> {
  entry: string
}

/**
 * Dead letters of a project, newest first, including replayed ones. Excludes those of profiles, sessions and aliases,
 * which may contain rows of several projects and therefore belong to none.
 * @param maxCharacters maximum length of each returned reason and body
 */
export async function listDeadLetters(
  shards: Shards,
  page: { projectId: string; limit: number; offset: number; maxCharacters: number },
): Promise<ListedDeadLetter[]> {
  const { projectId: project, limit, offset, maxCharacters: characters } = page
  const table = shards.table('dead_letters')
  const newest = 'ORDER BY position DESC, journal_id DESC'
  const rows = await shards.rows<ListedRow>(
    `SELECT position, journal_id, kind, toValidUTF8(substringUTF8(reason, 1, {characters:UInt32})) AS reason,
       received_at, toValidUTF8(substringUTF8(body, 1, {characters:UInt32})) AS entry
     FROM ${table}
     WHERE project_id = {project:String} AND (journal_id, position, revision) GLOBAL IN (
       SELECT journal_id, position, max(revision) FROM ${table} WHERE project_id = {project:String}
       GROUP BY journal_id, position ${newest} LIMIT {offset:UInt64}, {limit:UInt32})
     ${newest} LIMIT 1 BY journal_id, position`,
    { project, limit, offset, characters },
    ONE_BODY,
    { project },
  )
  const replays = await shards.rows<{ position: string; journal_id: number; at: string }>(
    `SELECT position, journal_id, min(replayed_at) AS at FROM ${shards.table('dead_letter_replays')}
     WHERE ${IS_AT} GROUP BY position, journal_id`,
    { at: rows.map(({ position }) => position) },
    {},
    { project },
  )
  const replayedAt = new Map(replays.map(({ position, journal_id, at }) => [`${position} ${journal_id}`, Number(at)]))
  return rows.map(({ position, journal_id, kind, reason, received_at, entry }) => ({
    position: BigInt(position),
    kind,
    reason,
    entry,
    receivedAt: Number(received_at),
    replayedAt: replayedAt.get(`${position} ${journal_id}`) ?? null,
  }))
}

export async function countDeadLetters(shards: Shards): Promise<number> {
  return await shards.count(async (clickhouse) => {
    const [row] = await clickhouse.rows<{ count: string }>(`SELECT count() AS count FROM dead_letters WHERE ${WAITING}`)
    return Number(row?.count ?? 0)
  })
}

/** The body exactly as the journal had it. */
export async function readDeadLetterBody(deadLetter: DeadLetter): Promise<Readable> {
  return await deadLetter.shard.clickhouse.bytes(
    `SELECT body FROM dead_letters
     WHERE position = {position:UInt64} AND journal_id = {journal:UInt32}
     ORDER BY revision DESC LIMIT 1 FORMAT RawBLOB`,
    { position: deadLetter.position, journal: deadLetter.journalId },
    {},
    deadLetter.projectId === '' ? {} : { project: deadLetter.projectId },
  )
}

/** Marks a dead letter as replayed, so that `readDeadLetters` no longer returns it. */
export async function insertReplay({ shard, journalId, position }: DeadLetter, now: number): Promise<void> {
  await shard.clickhouse.command(
    'INSERT INTO dead_letter_replays SELECT {journal:UInt32}, {position:UInt64}, {now:Int64}',
    { journal: journalId, position, now },
  )
}
