/**
 * The entry of the child process that reads a database of LMDB before the service opens it: LMDB maps the file into memory and
 * trusts what is in it, so damage ends a process by a signal. Only `check.ts` starts it, with `fork(…, [folder, 'write' or
 * 'read'])`. It changes nothing.
 */
import { ABORT, type Database, open } from 'lmdb'
import type { Meta } from './encoding.js'
import { TABLE_NAMES } from './tables.js'

/** The exit code if the database cannot be read; why is on stderr. */
const DAMAGED = 3
/** A large database is not read to its end, ms. */
const LIMIT_MS = 3_000

const [path = '', mode] = process.argv.slice(2)

/** Copies each key and value, as those on pages of their own are only looked at then. */
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
  // It is made before this one.
  if (names.includes('log') && !names.includes('meta')) throw new Error('its table of the journal itself is missing')
  if (!names.includes('meta')) return
  const meta = root.openDB<Meta | string, string>({ name: 'meta', encoding: 'json' })
  const found = meta.get('meta') as Meta | undefined
  if (found) BigInt(found.stored)
  if (isWriting) writeNothing(meta)
}

/** A transaction reads which pages are free, so one is begun, and given up. */
function writeNothing(meta: Database<Meta | string, string>): void {
  meta.transactionSync(() => {
    for (let i = 0; i < 20; i++) meta.putSync(`check ${i}`, 'x'.repeat(3000))
    return ABORT
  })
}

try {
  check()
  // Without closing: what is left to do may fail on a damaged database, too.
  process.exit(0)
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error), () => process.exit(DAMAGED))
}
