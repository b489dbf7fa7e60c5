import { createHash } from 'node:crypto'
import type { ClickHouse } from '../clickhouse/client.js'
import { isStoreError } from '../clickhouse/errors.js'
import { QueryParameters } from '../clickhouse/parameters.js'
import { FirstTexts } from './first-texts.js'

/** Names within the properties. */
type Path = readonly string[]
/** The source of a column's values: the token of a property, or the first text among several properties. */
export type ColumnSource = Path | { firstOf: readonly Path[] }

/**
 * A column of `event_facts` with values from the properties. Copying writes first texts and the tokens of outermost
 * names; ClickHouse computes all others from the properties, and the values in older parts. So a question may read any
 * column that exists.
 */
export interface ValueColumn {
  name: string
  source: ColumnSource
}

/**
 * Maximum number of columns of a shard. Even an empty one costs 0.08 µs for each event that is copied and merged, and
 * 0.2 ms for each step (docs/decisions/021-columns-of-facts.md).
 */
export const MAX_VALUE_COLUMNS = 60
const PREFIX = 'value_'
/** Longer paths have no columns. */
const MAX_PATH_CHARACTERS = 200
/** Prefix of the comment of a column with first texts. */
const FIRST_OF = 'first of:'
/** A column that a question has used within this time is not dropped to make room for another, s. */
const KEPT_S = 24 * 3600

export function isPath(source: ColumnSource): source is Path {
  return Array.isArray(source)
}

/** Returns the name of the column with these values. */
export function nameValueColumn(source: ColumnSource): string {
  return `${PREFIX}${createHash('sha256').update(JSON.stringify(source)).digest('hex').slice(0, 16)}`
}

/** Whether values may have a column: names with unpaired surrogates are found only in repaired texts. */
export function mayHaveColumn(source: ColumnSource): boolean {
  const paths = isPath(source) ? [source] : source.firstOf
  return (
    paths.length > 0 &&
    paths.every((path) => path.every((name) => name.isWellFormed()) && path.join('').length <= MAX_PATH_CHARACTERS)
  )
}

/**
 * The names of the columns.
 * @param table a table with facts: a column exists if both this table and `event_facts` have it
 */
export async function readValueColumns(clickhouse: ClickHouse, table = 'event_facts'): Promise<Set<string>> {
  const rows = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM system.columns
     WHERE database = currentDatabase() AND table IN ('event_facts', {table:String}) AND startsWith(name, '${PREFIX}')
     GROUP BY name HAVING count() = if({table:String} = 'event_facts', 1, 2)`,
    { table },
  )
  return new Set(rows.map(({ name }) => name))
}

/** The columns by their names, oldest first. */
export async function listValueColumns(clickhouse: ClickHouse): Promise<Map<string, ValueColumn>> {
  const rows = await clickhouse.rows<{ name: string; comment: string }>(
    `SELECT name, comment FROM system.columns
     WHERE database = currentDatabase() AND table = 'event_facts' AND startsWith(name, '${PREFIX}') ORDER BY position`,
  )
  return new Map(rows.map(({ name, comment }) => [name, { name, source: readSource(comment) }]))
}

/** Adds columns for values. @param isFilled whether ClickHouse fills them for existing rows, in the background */
export async function addValueColumns(
  clickhouse: ClickHouse,
  sources: readonly ColumnSource[],
  { isFilled = true } = {},
): Promise<void> {
  if (sources.length === 0) return
  const columns = sources.map((source) => {
    return `ADD COLUMN IF NOT EXISTS ${nameValueColumn(source)} LowCardinality(String)
      DEFAULT ${computeValue(source)} COMMENT '${writeSource(source)}' CODEC(ZSTD(1))`
  })
  await clickhouse.command(`ALTER TABLE event_facts ${columns.join(', ')}`)
  const plain = sources.map((source) => `ADD COLUMN IF NOT EXISTS ${nameValueColumn(source)} LowCardinality(String)`)
  await alterTableOverShards(clickhouse, plain)
  if (isFilled) await fillColumns(clickhouse, sources.map(nameValueColumn))
}

function computeValue(source: ColumnSource): string {
  if (isPath(source)) return `JSONExtractRaw(properties, ${source.map(toLiteral).join(', ')})`
  const texts = new FirstTexts(new Map([['', source.firstOf]]), toLiteral)
  return texts.check('', texts.find(texts.parse('properties'), 'properties').get('') ?? '', 'properties')
}

async function fillColumns(clickhouse: ClickHouse, names: readonly string[]): Promise<void> {
  const filled = names.map((name) => `MATERIALIZE COLUMN ${name}`)
  await clickhouse.command(`ALTER TABLE event_facts ${filled.join(', ')}`, {}, { mutations_sync: '0' })
}

/** Makes ClickHouse fill a column in parts that lack it, unless it is already doing so. */
export async function completeColumn(clickhouse: ClickHouse, name: string): Promise<void> {
  const table = "database = currentDatabase() AND table = 'event_facts'"
  const lacking = await clickhouse.rows(
    `SELECT 1 FROM system.parts WHERE ${table} AND active AND NOT startsWith(partition_id, 'patch-')
       AND name NOT IN (SELECT name FROM system.parts_columns WHERE ${table} AND active AND column = {name:String})
       AND NOT EXISTS (
         SELECT 1 FROM system.mutations WHERE ${table} AND NOT is_done AND position(command, {name:String}) > 0
       )
     LIMIT 1`,
    { name },
  )
  if (lacking.length > 0) await fillColumns(clickhouse, [name])
}

export async function dropValueColumns(clickhouse: ClickHouse, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  const dropped = names.map((name) => `DROP COLUMN IF EXISTS ${name}`)
  // ClickHouse does not drop a column while it is filling it, or removing its earlier files.
  const isChanged = names.map((name) => `position(command, 'COLUMN ${name}') > 0`)
  await clickhouse.command(
    `KILL MUTATION WHERE database = currentDatabase() AND table = 'event_facts' AND NOT is_done
     AND (${isChanged.join(' OR ')}) SYNC`,
  )
  await alterTableOverShards(clickhouse, dropped)
  // Their files are removed in the background.
  await clickhouse.command(`ALTER TABLE event_facts ${dropped.join(', ')}`, {}, { alter_sync: '0' })
}

/** Changes the columns of the table over all shards, if this shard has one. */
async function alterTableOverShards(clickhouse: ClickHouse, changes: readonly string[]): Promise<void> {
  try {
    await clickhouse.command(`ALTER TABLE event_facts_all ${changes.join(', ')}`)
  } catch (error) {
    if (!isStoreError(error, 'UNKNOWN_TABLE')) throw error
  }
}

/** Records that questions use columns. */
export async function noteColumnsUsed(clickhouse: ClickHouse, names: readonly string[]): Promise<void> {
  const fields = new QueryParameters()
  const list = fields.array([...names])
  await clickhouse.command(`INSERT INTO facts_columns_used (name) SELECT arrayJoin(${list})`, fields.parameters)
}

/** The column that no question has used for the longest time; null if all were used within a day. */
export async function findUnusedColumn(clickhouse: ClickHouse): Promise<string | null> {
  const [row] = await clickhouse.rows<{ name: string }>(
    `SELECT c.name AS name FROM system.columns AS c
     LEFT JOIN (SELECT name, max(used_at) AS used_at FROM facts_columns_used GROUP BY name) AS u ON u.name = c.name
     WHERE c.database = currentDatabase() AND c.table = 'event_facts' AND startsWith(c.name, '${PREFIX}')
       AND u.used_at < now() - ${KEPT_S}
     ORDER BY u.used_at, c.position LIMIT 1`,
    {},
    { join_use_nulls: 0 },
  )
  return row?.name ?? null
}

/** SQL for a name. */
export function toLiteral(name: string): string {
  return `unhex('${Buffer.from(name).toString('hex')}')`
}

/** Formats a source for the comment of its column. */
function writeSource(source: ColumnSource): string {
  return isPath(source) ? writePath(source) : `${FIRST_OF}${source.firstOf.map(writePath).join('|')}`
}

function readSource(comment: string): ColumnSource {
  if (!comment.startsWith(FIRST_OF)) return readPath(comment)
  return { firstOf: comment.slice(FIRST_OF.length).split('|').map(readPath) }
}

function writePath(path: Path): string {
  return path.map((name) => encodeURIComponent(name).replaceAll("'", '%27')).join('/')
}

function readPath(comment: string): Path {
  return comment.split('/').map(decodeURIComponent)
}
