/** Rewrites the statements of `schema/` for servers with replicas. */

const CREATE_TABLE = /^\s*CREATE TABLE IF NOT EXISTS (\w+)\s*\(/i
const ENGINE = /\bENGINE\s*=\s*(\w*MergeTree)\b(?:\s*\(([^)]*)\))?/
/** Engines whose tables each server has for itself. */
const OWN = /\bENGINE\s*=\s*(Set|Memory)\b/
const WINDOW = /\bnon_replicated_deduplication_window\s*=\s*(\d+)/
/** Engines that `schema/` uses; all have a replicated counterpart of the same arguments. */
const ENGINES = new Set(['MergeTree', 'ReplacingMergeTree', 'AggregatingMergeTree'])
/** Statements that need to run on one replica only, because the Keeper or the tables replicate their effect. */
const SHARED = [
  /^\s*CREATE MATERIALIZED VIEW IF NOT EXISTS \w+ TO \w+/i,
  /^\s*ALTER TABLE \w+ ADD (COLUMN|INDEX) IF NOT EXISTS/i,
  /^\s*ALTER TABLE \w+ (DELETE|UPDATE)\b/i,
  /^\s*INSERT INTO \w+/i,
]
const MODIFY_SETTING = /^\s*ALTER TABLE \w+ MODIFY SETTING\b/i

/**
 * How long tokens are kept, s, so that a writer that was suspended for an hour still stores nothing twice. A token is
 * dropped when it is older than this, or when the table's window is full.
 */
const TOKENS_KEPT_S = 2 * 60 * 60

/** A statement that cannot be rewritten for a server with replicas. */
export class UnreplicableError extends Error {
  override readonly name = 'UnreplicableError'
}

/**
 * Rewrites a statement for replicated tables. A table's path in the Keeper consists of the server's macro `{shard}`,
 * the database and the table; the macro `{replica}` names the server.
 * @throws UnreplicableError for a kind of statement that is not known to be safe with replicas
 */
export function replicateStatement(statement: string, database: string): string {
  const text = withoutComments(statement)
  const table = CREATE_TABLE.exec(text)?.[1]
  if (table === undefined) {
    if (MODIFY_SETTING.test(text) || SHARED.some((kind) => kind.test(text))) return settings(statement)
    throw new UnreplicableError(`This statement cannot be replicated: ${text.trim().slice(0, 100)}`)
  }
  if (OWN.test(text)) return statement
  const [clause = '', engine = '', given] = ENGINE.exec(text) ?? []
  if (!ENGINES.has(engine)) throw new UnreplicableError(`The engine of ${table} cannot be replicated.`)
  const path = `/clickhouse/tables/{shard}/${encodeURIComponent(database).replaceAll("'", '%27')}/${table}`
  const all = [`'${path}'`, "'{replica}'", ...(given?.trim() ? [given.trim()] : [])].join(', ')
  return withDurability(settings(text.replace(clause, () => `ENGINE = Replicated${engine}(${all})`)), table)
}

/** Whether a statement must run on each replica, because settings of tables are not replicated. */
export function isLocal(statement: string): boolean {
  return MODIFY_SETTING.test(withoutComments(statement))
}

function settings(statement: string): string {
  return statement.replace(
    WINDOW,
    (_, blocks) =>
      `replicated_deduplication_window = ${blocks}, replicated_deduplication_window_seconds = ${TOKENS_KEPT_S}`,
  )
}

/**
 * Adds settings for durability. A replica counts for the quorum once it has fetched a block, which must then be on its
 * disk. Tables without a deduplication window must not get the default one: an INSERT that is dropped as a repetition
 * would not reach the table's views.
 */
function withDurability(statement: string, table: string): string {
  if (!/\bSETTINGS\b/.test(statement)) throw new UnreplicableError(`${table} has no settings for its durability.`)
  const added = ['min_compressed_bytes_to_fsync_after_fetch = 1']
  if (!/\breplicated_deduplication_window\b/.test(statement)) added.push('replicated_deduplication_window = 0')
  return statement.replace(/\bSETTINGS\b/, () => `SETTINGS ${added.join(', ')},`)
}

/** Removes comments, which are always at the ends of lines. */
export function withoutComments(statement: string): string {
  return statement.replace(/\s*--.*$/gm, '')
}
