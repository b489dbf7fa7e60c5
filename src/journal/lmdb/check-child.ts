/**
 * The entry point of a child process that reads an LMDB database before the service opens it. LMDB maps the file into
 * memory and trusts its content, so damage kills the process by a signal. Only `check.ts` starts it, with `fork(…,
 * [folder, 'write' or 'read'])`. It changes nothing.
 */
import { ABORT, type Database, open } from 'lmdb'
import type { Meta } from './encoding.js'
import { TABLE_NAMES } from './tables.js'

/** The exit code if the database cannot be read; the reason is on stderr. */
const DAMAGED = 3
/** After this, reading ends, even if a large database has more, ms. */
const LIMIT_MS = 3_000

const [path = '', mode] = process.argv.slice(2)

/** Copies each key and value, because LMDB touches overflow pages only then. */
function readAll(table: Database<Buffer, Buffer>, until: number): void {
  let count = 0
  for (const { value } of table.getRange()) {
    if (Buffer.from(value).length < 0) return
    if (++count % 1000 === 0 && performance.now() > until) return
  }
}

function check(): void {
  const until = performance.now() + LIMIT_MS
  const isWriting = mode === 'write'
  const options = { path, overlappingSync: false, eventTurnBatching: false, cache: false, maxDbs: 16 }
  const root = open({ ...options, readOnly: !isWriting })
  const names = Array.from(root.getKeys(), String)
  if (names.length === 0) return
  for (const name of TABLE_NAMES) {
    if (names.includes(name))
      readAll(root.openDB({ name, encoding: 'binary', keyEncoding: 'binary', cache: false }), until)
  }
  // The service creates `meta` before `log`.
  if (names.includes('log') && !names.includes('meta')) throw new Error('its table of the journal itself is missing')
  if (!names.includes('meta')) return
  const meta = root.openDB<Meta | string, string>({ name: 'meta', encoding: 'json' })
  const found = meta.get('meta') as Meta | undefined
  if (found) BigInt(found.stored)
  if (isWriting) writeNothing(meta)
}

/** Begins a transaction and aborts it, because a transaction reads the list of free pages. */
function writeNothing(meta: Database<Meta | string, string>): void {
  meta.transactionSync(() => {
    for (let i = 0; i < 20; i++) meta.putSync(`check ${i}`, 'x'.repeat(3000))
    return ABORT
  })
}

try {
  check()
  // Do not close the database, because that may also fail if it is damaged.
  process.exit(0)
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error), () => process.exit(DAMAGED))
}
