import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { ClickHouse } from '../clickhouse/client.js'
import { literal, type Scalars } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { PAGE_SETTINGS, pageOf } from './page.js'

/** What a project saves: questions, and boards of them. They are on the first shard. */
export type SavedKind = 'question' | 'board'

/** Where one of them is. */
export interface SavedPlace {
  projectId: string
  kind: SavedKind
  id: string
}

/** What is saved; the texts are JSON, and kept as they are. */
export interface SavedValue {
  name: string
  /** the question, or the list of a board's cards */
  content: string
  /** how the question is drawn; `null` where that was not said, and for a board */
  display: string
  /** how many cards a board has */
  cards: number
}

/** The most that a project may have of a kind. */
export const MAX_SAVED = 500
/** How often a change is tried while others change the same. */
const MAX_TRIES = 100

/**
 * `revision`: that of the change. `conflict`: the stored one is another than expected. `full`: the project has `MAX_SAVED`.
 * `missing`: there is nothing to delete.
 */
type Changed = { revision: number } | 'conflict' | 'full' | 'missing'

const OF_KIND = 'project_id = {project:String} AND kind = {kind:String}'
const ONE = `${OF_KIND} AND id = {id:String}`

const HEAD = `'{"id":', toJSONString(id), ',"name":', toJSONString(name)`
const TAIL = `',"revision":', toString(version), ',"updated_at":', toString(updated_at), '}'`
/** Rows as the API has them. */
const JSON_OF = {
  question: `concat(${HEAD}, ',"question":', content, ',"display":', display, ${TAIL})`,
  board: `concat(${HEAD}, ',"cards":', content, ${TAIL})`,
}
/** As they are in a list. */
const LISTED_JSON = { ...JSON_OF, board: `concat(${HEAD}, ',"count":', toString(cards), ${TAIL})` }

/** All of a kind that a project has, by name, as JSON texts. */
export async function listSaved(
  shards: Shards,
  { projectId, kind }: Omit<SavedPlace, 'id'>,
  signal: AbortSignal,
): Promise<Readable> {
  const query = pageOf({
    json: LISTED_JSON[kind],
    nextId: "repeat('-', 36)",
    from: `SELECT * FROM saved FINAL WHERE ${OF_KIND} ORDER BY lowerUTF8(name), name, id`,
  })
  const values = { project: projectId, kind, limit: MAX_SAVED, offset: 0 }
  return await onFirst(shards, (clickhouse) =>
    clickhouse.bytes(query, values, PAGE_SETTINGS, { signal, project: projectId }),
  )
}

/** One of them as a JSON text; null where there is none. */
export async function readSaved(shards: Shards, place: SavedPlace): Promise<string | null> {
  const [row] = await onFirst(shards, (clickhouse) =>
    clickhouse.rows<{ json: string }>(
      `SELECT ${JSON_OF[place.kind]} AS json FROM saved FINAL WHERE ${ONE}`,
      valuesOf(place),
      { output_format_json_escape_forward_slashes: 0 },
    ),
  )
  return row?.json ?? null
}

/**
 * Saves or replaces one.
 * @param expected the revision that it replaces, 0 for none; absent: whichever
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
  return await onFirst(shards, (clickhouse) => change(clickhouse, place, row, expected))
}

/** Deletes one. @throws as `putSaved` */
export async function deleteSaved(shards: Shards, place: SavedPlace, now: number): Promise<Changed> {
  return await onFirst(shards, (clickhouse) => change(clickhouse, place, { ...NOTHING, now }))
}

/** Takes everything that a project has saved out of the store, and off its disk as soon as the old parts go. */
export async function eraseSaved(shards: Shards, projectId: string): Promise<void> {
  await onFirst(shards, (clickhouse) =>
    clickhouse.command(
      'ALTER TABLE saved DELETE WHERE project_id = {project:String}',
      { project: projectId },
      { mutations_sync: '1' },
    ),
  )
}

type Row = SavedValue & { now: number; isDeleted: boolean }
/** The row of one that is deleted. */
const NOTHING = { name: '', content: '', display: '', cards: 0, isDeleted: true }

/**
 * Puts a row in the place of the newest one. Its token names that one: of changes that are made at the same time, by
 * whichever process, ClickHouse stores one and drops the others, which find it in the place of theirs.
 */
async function change(clickhouse: ClickHouse, place: SavedPlace, row: Row, expected?: number): Promise<Changed> {
  let last = { version: 0, staleTokens: 0 }
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const before = await newest(clickhouse, place)
    const revision = before.isDeleted ? 0 : before.version
    if (expected !== undefined && expected !== revision) {
      // Whoever repeats a change because its response was lost has made it already.
      const stored = await revisionOf(clickhouse, place, row)
      return stored === null ? 'conflict' : { revision: stored }
    }
    if (revision === 0 && row.isDeleted) return 'missing'
    if (revision === 0 && (await countSaved(clickhouse, place)) >= MAX_SAVED) return 'full'
    if (before.version !== last.version) last = { version: before.version, staleTokens: 0 }
    const version = before.version + 1
    const writeId = randomUUID()
    await insert(clickhouse, place, row, { version, writeId, token: `${before.version}+${last.staleTokens}` })
    const after = await newest(clickhouse, place, version)
    if (after.writer === writeId)
      return revision === 0 ? await keepOrTakeBack(clickhouse, place, row, version) : { revision: version }
    // The project was erased since the token was used, so nobody's change is there.
    if (after.version < version) last.staleTokens++
    // Merged into a later one, so nobody can tell whose it was. A deletion has come true either way; what is put is put
    // again, so that no two have one revision; and one that names a revision is not the newest, so it is a conflict.
    else if (after.writer === null && row.isDeleted) return { revision: version }
  }
  return 'conflict'
}

/**
 * Others may have been added since they were counted, so a new one is counted again with itself: what is one too many goes
 * again. Whoever stays has counted all that stayed before, so no more than `MAX_SAVED` do.
 */
async function keepOrTakeBack(clickhouse: ClickHouse, place: SavedPlace, row: Row, version: number): Promise<Changed> {
  if ((await countSaved(clickhouse, place)) <= MAX_SAVED) return { revision: version }
  const taken = await change(clickhouse, place, { ...row, ...NOTHING }, version)
  // Somebody has replaced it meanwhile, so it is somebody's.
  return taken === 'conflict' ? { revision: version } : 'full'
}

/** The revision of what is stored if it is the same as the row; null if it is not. */
async function revisionOf(clickhouse: ClickHouse, place: SavedPlace, row: Row): Promise<number | null> {
  const [stored] = await clickhouse.rows<Pick<Row, 'name' | 'content' | 'display'> & { version: string }>(
    `SELECT name, content, display, version FROM saved FINAL WHERE ${ONE}`,
    valuesOf(place),
  )
  const isSame = stored?.name === row.name && stored.content === row.content && stored.display === row.display
  return isSame ? Number(stored.version) : null
}

interface Newest {
  version: number
  /** also where there never was one */
  isDeleted: boolean
  /** of the row with the version that was asked for; null where it is not there */
  writer: string | null
}

/** The newest row of all, deleted or not, and whose the row with a version is. */
async function newest(clickhouse: ClickHouse, place: SavedPlace, version = 0): Promise<Newest> {
  const [row] = await clickhouse.rows<{ last: string; is_deleted: number; writers: string[] }>(
    `SELECT max(version) AS last, argMax(is_deleted, version) AS is_deleted,
       groupArrayIf(toString(write_id), version = {version:UInt64}) AS writers
     FROM saved WHERE ${ONE}`,
    { ...valuesOf(place), version },
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
    { ...valuesOf(place), name, cards, now, writeId, version, isDeleted: isDeleted ? 1 : 0 },
    {
      insert_deduplication_token: JSON.stringify([place.projectId, place.kind, place.id, token]),
      deduplicate_insert_select: 'force_enable',
    },
  )
}

async function countSaved(clickhouse: ClickHouse, { projectId, kind }: SavedPlace): Promise<number> {
  const [row] = await clickhouse.rows<{ count: string }>(`SELECT count() AS count FROM saved FINAL WHERE ${OF_KIND}`, {
    project: projectId,
    kind,
  })
  return Number(row?.count ?? 0)
}

function valuesOf({ projectId, kind, id }: SavedPlace): Scalars {
  return { project: projectId, kind, id }
}

/** Of several shards, a failure names the first. */
async function onFirst<T>(shards: Shards, run: (clickhouse: ClickHouse) => Promise<T>): Promise<T> {
  return await shards.on(shards.at(0), ({ clickhouse }) => run(clickhouse))
}
