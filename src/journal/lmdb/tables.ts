import { type Database, open, type RootDatabase } from 'lmdb'
import { type Position, START } from '../../model/position.js'
import type { Meta } from './encoding.js'

/** The embedded journal's tables in LMDB, which have everything except the entries. */
export interface LmdbTables {
  root: RootDatabase
  meta: Database<Meta, string>
  /**
   * APPLIED → last position of the last conditional record whose transaction is committed; REMEMBERED → see
   * `MemoryClock`
   */
  log: Database<Buffer, Buffer>
  /** state key → version and state */
  states: Database<Buffer, Buffer>
  /** time and state key → the version that expires then */
  expiries: Database<Buffer, Buffer>
  /** bucket and key → see `formatRequest` */
  requests: Database<Buffer, Buffer>
  /** bucket and sender → number of that sender's requests */
  counts: Database<Buffer, Buffer>
  /** field and project → count, see `readTallies` */
  tallies: Database<Buffer, Buffer>
  /** see `IdBucket` */
  insertIds: Database<Buffer, Buffer>
  /** name of a sender → its `SpaceRecord` as JSON */
  idSpaces: Database<Buffer, Buffer>
}

/** A key of the table `log`. */
export const APPLIED = Buffer.from('applied')

export function appliedIn({ log }: Pick<LmdbTables, 'log'>): Position {
  return log.get(APPLIED)?.readBigUInt64BE() ?? START
}

/** The names of the tables in the database. */
export const TABLE_NAMES = [
  ...['meta', 'log', 'states', 'expiries', 'requests', 'request-counts'],
  ...['insert-ids', 'insert-id-spaces', 'tallies'],
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
    states: table('states'),
    expiries: table('expiries'),
    requests: table('requests'),
    counts: table('request-counts'),
    tallies: table('tallies'),
    insertIds: table('insert-ids'),
    idSpaces: table('insert-id-spaces'),
  }
}
