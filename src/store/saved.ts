import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { ClickHouse } from '../clickhouse/client.js'
import { literal, type Parameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { deduplicateBy } from './insert.js'
import { buildPageQuery, PAGE_SETTINGS } from './page.js'

/** What can be saved: questions, and boards of questions. Both are stored on the first shard. */
export type SavedKind = 'question' | 'board'

/** Identifies a saved question or board. */
export interface SavedPlace {
  projectId: string
  kind: SavedKind
  id: string
}

/** A saved question or board; `content` and `display` are JSON and stored unchanged. */
export interface SavedValue {
  name: string
  /** the question, or the list of a board's cards */
  content: string
  /** how the question or board is drawn; the string `null` if the client did not specify it */
  display: string
  /** number of cards of a board */
  cards: number
}

/** Maximum number of saved questions, or boards, of a project. */
export const MAX_SAVED = 500
/** Maximum total bytes of a project's saved questions, or boards, because a list has to hold and sort them. */
export const MAX_SAVED_BYTES = 16 * 1024 * 1024
/** Attempts to change a question or board while others are changing it. */
const MAX_TRIES = 100

/**
 * `revision`: the new revision. `conflict`: the stored revision is not the expected one. `full`: the project has
 * `MAX_SAVED`. `large`: it would have more than `MAX_SAVED_BYTES`. `missing`: there is nothing to delete.
 */
type Changed = { revision: number } | 'conflict' | 'full' | 'large' | 'missing'

const OF_KIND = 'project_id = {project:String} AND kind = {kind:String}'
const ONE = `${OF_KIND} AND id = {id:String}`

const HEAD = `'{"id":', toJSONString(id), ',"name":', toJSONString(name)`
const TAIL = `',"revision":', toString(version), ',"updated_at":', toString(updated_at), '}'`
/** SQL of the JSON in API responses. */
const RESPONSE_JSON = {
  question: `concat(${HEAD}, ',"question":', content, ',"display":', display, ${TAIL})`,
  board: `concat(${HEAD}, ',"cards":', content, ',"display":', display, ${TAIL})`,
}
/** SQL of the JSON in lists. */
const LISTED_JSON = { ...RESPONSE_JSON, board: `concat(${HEAD}, ',"count":', toString(cards), ${TAIL})` }

/** All saved questions or boards of a project by name, as JSON texts. */
export async function listSaved(
  shards: Shards,
  { projectId, kind }: Omit<SavedPlace, 'id'>,
  signal: AbortSignal,
): Promise<Readable> {
  const query = buildPageQuery({
    json: LISTED_JSON[kind],
    nextId: "repeat('-', 36)",
    from: `SELECT * FROM saved FINAL WHERE ${OF_KIND} ORDER BY lowerUTF8(name), name, id`,
  })
  const values = { project: projectId, kind, limit: MAX_SAVED, offset: 0 }
  return await shards.onFirst((clickhouse) =>
    clickhouse.bytes(query, values, PAGE_SETTINGS, { signal, project: projectId }),
  )
}

/** One saved question or board as a JSON text; null if there is none. */
export async function readSaved(shards: Shards, place: SavedPlace): Promise<string | null> {
  const [row] = await shards.onFirst((clickhouse) =>
    clickhouse.rows<{ json: string }>(
      `SELECT ${RESPONSE_JSON[place.kind]} AS json FROM saved FINAL WHERE ${ONE}`,
      toParameters(place),
      { output_format_json_escape_forward_slashes: 0 },
      { project: place.projectId },
    ),
  )
  return row?.json ?? null
}

/**
 * Saves or replaces a question or board.
 * @param expected the revision that it replaces, 0 for none; absent: any
 * @param now epoch ms
 * @throws StoreUnreachableError, StoreError; whether it was saved is unknown then
 */
export async function putSaved(
  shards: Shards,
  place: SavedPlace,
  value: SavedValue,
  { expected, now }: { expected?: number | undefined; now: number },
): Promise<Changed> {
  const row = { ...value, now, isDeleted: false }
  return await shards.onFirst((clickhouse) => change(clickhouse, place, row, expected))
}

/** Deletes a question or board. @throws like `putSaved` */
export async function deleteSaved(shards: Shards, place: SavedPlace, now: number): Promise<Changed> {
  return await shards.onFirst((clickhouse) => change(clickhouse, place, { ...NOTHING, now }))
}

/** Deletes everything that a project has saved. It leaves the disk when ClickHouse removes the old parts. */
export async function eraseSaved(shards: Shards, projectId: string): Promise<void> {
  await shards.onFirst((clickhouse) =>
    clickhouse.command(
      'ALTER TABLE saved DELETE WHERE project_id = {project:String}',
      { project: projectId },
      { mutations_sync: '1' },
    ),
  )
}

type Row = SavedValue & { now: number; isDeleted: boolean }
/** The fields of a row that marks a deletion. */
const NOTHING = { name: '', content: '', display: '', cards: 0, isDeleted: true }

/**
 * Replaces the newest row. The INSERT's token names that row, so ClickHouse stores only one of several concurrent
 * changes, whichever process makes them. The others find another writer's row instead of their own, and try again.
 */
async function change(clickhouse: ClickHouse, place: SavedPlace, row: Row, expected?: number): Promise<Changed> {
  let last = { version: 0, staleTokens: 0 }
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const before = await readNewest(clickhouse, place)
    const revision = before.isDeleted ? 0 : before.version
    if (expected !== undefined && expected !== revision) {
      // The client may be retrying a change whose response was lost.
      const stored = await findSameRevision(clickhouse, place, row)
      return stored === null ? 'conflict' : { revision: stored }
    }
    if (revision === 0 && row.isDeleted) return 'missing'
    if (!row.isDeleted) {
      const { count, bytes } = await countSaved(clickhouse, place)
      if (revision === 0 && count >= MAX_SAVED) return 'full'
      if (bytes + Buffer.byteLength(row.content) + Buffer.byteLength(row.display) > MAX_SAVED_BYTES) return 'large'
    }
    if (before.version !== last.version) last = { version: before.version, staleTokens: 0 }
    const version = before.version + 1
    const writeId = randomUUID()
    await insert(clickhouse, place, row, { version, writeId, token: `${before.version}+${last.staleTokens}` })
    const after = await readNewest(clickhouse, place, version)
    if (after.writer === writeId)
      return revision === 0 ? await keepOrTakeBack(clickhouse, place, row, version) : { revision: version }
    // The project was erased since the token was used, so no change is stored.
    if (after.version < version) last.staleTokens++
    // The row was merged into a later one, so its writer is unknown. A deletion has succeeded either way. A change is
    // retried, so that no two changes get the same revision; if it expected a revision, it then ends as a conflict.
    else if (after.writer === null && row.isDeleted) return { revision: version }
  }
  return 'conflict'
}

/**
 * Counts again after adding a question or board, because others may have been added since the first count, and deletes
 * the new one if there are too many. Each one that stays has counted all earlier ones that stay, so at most `MAX_SAVED`
 * stay.
 */
async function keepOrTakeBack(clickhouse: ClickHouse, place: SavedPlace, row: Row, version: number): Promise<Changed> {
  const { count } = await countSaved(clickhouse, place)
  if (count <= MAX_SAVED) return { revision: version }
  const taken = await change(clickhouse, place, { ...row, ...NOTHING }, version)
  // Another client has replaced it in the meantime, so it stays.
  return taken === 'conflict' ? { revision: version } : 'full'
}

/** The stored revision if it has the same content as the row, else null. */
async function findSameRevision(clickhouse: ClickHouse, place: SavedPlace, row: Row): Promise<number | null> {
  const [stored] = await clickhouse.rows<Pick<Row, 'name' | 'content' | 'display'> & { version: string }>(
    `SELECT name, content, display, version FROM saved FINAL WHERE ${ONE}`,
    toParameters(place),
  )
  const isSame = stored?.name === row.name && stored.content === row.content && stored.display === row.display
  return isSame ? Number(stored.version) : null
}

interface Newest {
  version: number
  /** also true if it never existed */
  isDeleted: boolean
  /** write id of the row with the requested version; null if there is no such row */
  writer: string | null
}

/** The newest row, deleted or not, and the write id of the row with a version. */
async function readNewest(clickhouse: ClickHouse, place: SavedPlace, version = 0): Promise<Newest> {
  const [row] = await clickhouse.rows<{ last: string; is_deleted: number; writers: string[] }>(
    `SELECT max(version) AS last, argMax(is_deleted, version) AS is_deleted,
       groupArrayIf(toString(write_id), version = {version:UInt64}) AS writers
     FROM saved WHERE ${ONE}`,
    { ...toParameters(place), version },
  )
  const last = Number(row?.last ?? 0)
  return { version: last, isDeleted: last === 0 || row?.is_deleted === 1, writer: row?.writers[0] ?? null }
}

async function insert(
  clickhouse: ClickHouse,
  place: SavedPlace,
  { name, content, display, cards, now, isDeleted }: Row,
  { version, writeId, token }: { version: number; writeId: string; token: string },
): Promise<void> {
  await clickhouse.command(
    `INSERT INTO saved (project_id, kind, id, name, content, display, cards, updated_at, write_id, version, is_deleted)
     SELECT {project:String}, {kind:String}, {id:String}, {name:String}, ${literal(content)}, ${literal(display)},
       {cards:UInt16}, {now:Int64}, {writeId:UUID}, {version:UInt64}, {isDeleted:UInt8}`,
    { ...toParameters(place), name, cards, now, writeId, version, isDeleted: isDeleted ? 1 : 0 },
    deduplicateBy(JSON.stringify([place.projectId, place.kind, place.id, token])),
  )
}

/** How many saved questions, or boards, a project has, and the total size of those other than `place`. */
async function countSaved(clickhouse: ClickHouse, place: SavedPlace): Promise<{ count: number; bytes: number }> {
  const [row] = await clickhouse.rows<{ count: string; bytes: string }>(
    `SELECT count() AS count, sumIf(length(content) + length(display), id != {id:String}) AS bytes
     FROM saved FINAL WHERE ${OF_KIND}`,
    toParameters(place),
  )
  return { count: Number(row?.count ?? 0), bytes: Number(row?.bytes ?? 0) }
}

function toParameters({ projectId, kind, id }: SavedPlace): Parameters {
  return { project: projectId, kind, id }
}
