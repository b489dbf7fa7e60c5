import { type Database, open, type RootDatabase } from 'lmdb'
import { type Position, START } from '../../model/position.js'
import type { Meta } from './encoding.js'

/** What the embedded journal has in LMDB: everything except the entries. */
export interface LmdbTables {
  root: RootDatabase
  meta: Database<Meta, string>
  /** APPLIED → last position of the last conditional record whose transaction is committed; STORED → `Meta.stored` */
  log: Database<Buffer, Buffer>
  /** entries of a version that had no log: position → entry */
  oldEntries: Database<Buffer, Buffer>
  /** state key → version and state */
  states: Database<Buffer, Buffer>
  /** time, type and name → the version that expires then */
  expiries: Database<Buffer, Buffer>
  /** bucket and key → position and fingerprint, then the id of the journal if it is another one */
  requests: Database<Buffer, Buffer>
  /** bucket and sender → number of that sender's requests */
  counts: Database<Buffer, Buffer>
  /** what is counted and project → number, see `readTallies` */
  tallies: Database<Buffer, Buffer>
  /** see `IdBucket` */
  insertIds: Database<Buffer, Buffer>
  /** name of a sender → its `SpaceRecord` as JSON */
  idSpaces: Database<Buffer, Buffer>
  /** requests of versions before 0.2: the whole key → position and fingerprint, in hexadecimal digits */
  oldRequests: Database<Buffer, Buffer>
}

/** The keys of `log`. */
export const APPLIED = Buffer.from('applied')
export const STORED = Buffer.from('stored')

export function appliedIn({ log }: Pick<LmdbTables, 'log'>): Position {
  return log.get(APPLIED)?.readBigUInt64BE() ?? START
}

/** What the tables are called in the database. */
export const TABLE_NAMES = [
  ...['meta', 'log', 'entries', 'states', 'expiries', 'requests-by-time', 'request-counts'],
  ...['insert-id-buckets', 'insert-id-spaces', 'requests', 'tallies'],
] as const

/** Opens a folder, creating it if there is none. */
export function openTables(path: string): LmdbTables {
  // overlappingSync off: a commit resolves only when it is on disk, as this journal promises.
  // eventTurnBatching off: lmdb leaves its own promise of a failed commit unhandled, which would end the process.
  const root = open({ path, overlappingSync: false, eventTurnBatching: false, cache: false, maxDbs: 16 })
  const table = (name: (typeof TABLE_NAMES)[number]): Database<Buffer, Buffer> =>
    root.openDB({ name, encoding: 'binary', keyEncoding: 'binary', cache: false })
  return {
    root,
    meta: root.openDB({ name: 'meta', encoding: 'json' }),
    log: table('log'),
    oldEntries: table('entries'),
    states: table('states'),
    expiries: table('expiries'),
    requests: table('requests-by-time'),
    counts: table('request-counts'),
    tallies: table('tallies'),
    insertIds: table('insert-id-buckets'),
    idSpaces: table('insert-id-spaces'),
    oldRequests: table('requests'),
  }
}
