import type { StateKind } from '../model/state-key.js'
import { VERSIONED_TABLES } from './newest-rows.js'

/** The characters that JSON.stringify escapes, the backslash first. */
const ESCAPES: [string, string][] = [
  ['\\', '\\\\'],
  ['"', '\\"'],
  ...Array.from({ length: 0x20 }, (_, code): [string, string] => {
    const character = String.fromCharCode(code)
    return [character, JSON.stringify(character).slice(1, -1)]
  }),
]

/**
 * An expression for the shard on which the writer of a row's lane stores it: `chooseLane` of `toStateKey`, modulo the
 * number of shards, as ClickHouse computes it.
 * @param layout how many lanes and shards the store has
 */
export function stateShardSql(kind: StateKind, { lanes, shards }: { lanes: number; shards: number }): string {
  return `reinterpretAsUInt32(reverse(substring(SHA256(concat('[', ${nameSql(kind)})), 1, 4))) % ${lanes} % ${shards}`
}

/** SQL for the last bytes of `toStateKey`, at most those that depend on the kind. */
export function stateKeyEndSql(kind: StateKind, bytes: number): string {
  return `right(SHA256(concat('["${kind}",', ${nameSql(kind)})), ${bytes})`
}

/** SQL for the end of the JSON array that is hashed. */
function nameSql(kind: StateKind): string {
  return `concat(${jsonText('project_id')}, ',', ${jsonText(VERSIONED_TABLES[kind].key)}, ']')`
}

/**
 * SQL for a string column as JSON.stringify writes it. UTF-8 has no unpaired surrogates, so there are none to escape.
 */
function jsonText(column: string): string {
  const bytes = (text: string) => `unhex('${Buffer.from(text).toString('hex')}')`
  const escaped = ESCAPES.reduce((sql, [from, to]) => `replaceAll(${sql}, ${bytes(from)}, ${bytes(to)})`, column)
  // Most names contain none of the 34 characters.
  return `concat('"', if(match(${column}, '[\\\\x00-\\\\x1f"\\\\\\\\]'), ${escaped}, ${column}), '"')`
}
