import { existsSync } from 'node:fs'
import { access } from 'node:fs/promises'
import { pieces } from '../../lib/pieces.js'
import { maxPosition, type Position, START } from '../../model/position.js'
import type { Tally, WaitingEntry } from '../journal.js'
import type { JournalStatus, KeptState, Relocation, RememberedIds, RememberedRequest } from '../relocation.js'
import { ANY_NUMBER } from '../sender-limits.js'
import { countStateBytes } from '../shares.js'
import { checkDatabase, noteSound } from './check.js'
import { Draft } from './draft.js'
import { type Meta, toGuard } from './encoding.js'
import { readEntryLog } from './entry-log.js'
import { LmdbInsertIds } from './insert-ids.js'
import { type Clocks, MemoryClock } from './memory-clock.js'
import { createMeta, putMeta, readMeta } from './meta.js'
import { LmdbRequests } from './requests.js'
import { LmdbStates } from './states.js'
import { appliedIn, type LmdbTables, openTables } from './tables.js'
import { addWaiting, readTallies } from './tallies.js'
import { transact } from './transact.js'

/** Number of requests or states in a piece. */
const PIECE = 1000

/**
 * Opens the embedded journal of a lane to inspect it or to change the layout. For a change, no process may have the
 * journal open. Creates nothing in the folder before `create`.
 */
export function openLmdbRelocation({ path, ...clocks }: { path: string } & Clocks): Relocation {
  return new LmdbRelocation(path, clocks)
}

class LmdbRelocation implements Relocation {
  readonly #path: string
  readonly #now: () => number
  #tables: LmdbTables | null = null
  #ids: LmdbInsertIds | null = null
  readonly #clocks: Clocks

  constructor(path: string, clocks: Clocks) {
    this.#path = path
    this.#clocks = clocks
    this.#now = clocks.now ?? Date.now
  }

  async tally(): Promise<Tally | null> {
    // Opens the tables.
    if (!(await this.readStatus())) return null
    const { meta, log, tallies } = this.#open()
    // A running service may acknowledge blocks. Within one turn of the event loop, LMDB reads a single snapshot.
    const found = meta.get('meta')
    const projects = readTallies(tallies)
    if (!found) return null
    const stored = BigInt(found.stored)
    for await (const entries of readEntryLog(this.#path, appliedIn({ log }))) {
      for (const { kind, position, projectId, count } of entries) {
        if (kind === 'events' && position > stored) addWaiting(projects, projectId, count)
      }
    }
    return { journalId: found.id, stored, projects }
  }

  async readStatus(): Promise<JournalStatus | null> {
    if (!(await isThere(this.#path))) return null
    if (!this.#tables) await checkDatabase(this.#path, false)
    const tables = this.#open()
    const found = readMeta(tables, this.#path)
    if (!found) return null
    const { version: layout, closedFor } = toGuard(found)
    const stored = BigInt(found.stored)
    const depth = { entries: 0, bytes: 0, stateBytes: 0, oldestMs: 0 }
    let last = maxPosition(stored, BigInt(found.outranked ?? START))
    const count = (entry: WaitingEntry) => {
      const { position, receivedAt, body } = entry
      if (position <= stored) return
      if (depth.entries === 0) depth.oldestMs = Math.max(0, this.#now() - receivedAt)
      depth.entries++
      depth.bytes += body.length
      depth.stateBytes += countStateBytes(entry)
      last = maxPosition(last, position)
    }
    for await (const entries of readEntryLog(this.#path, appliedIn(tables))) entries.forEach(count)
    return { id: found.id, layout, closedFor, appended: last, depth }
  }

  async create(): Promise<void> {
    if (await this.readStatus()) return
    this.#open()
    await this.#put(await createMeta(this.#path, this.#now(), 0))
  }

  async closeIntake(version: number): Promise<void> {
    await this.#put({ ...this.#meta, closedFor: version })
  }

  async raise(position: Position): Promise<void> {
    const meta = this.#meta
    await this.#put({ ...meta, outranked: String(maxPosition(position, BigInt(meta.outranked ?? START))) })
  }

  async *requests(): AsyncGenerator<RememberedRequest[]> {
    yield* pieces(this.#requests.all(this.#now()), PIECE)
  }

  async addRequests(requests: RememberedRequest[]): Promise<void> {
    const here = this.#requests
    await transact(this.#open().root, () => {
      for (const request of requests) here.add(request)
    })
  }

  async *insertIds(): AsyncGenerator<RememberedIds> {
    yield* this.#insertIds().all(this.#now())
  }

  async addInsertIds({ sender, bucket, ids }: RememberedIds): Promise<void> {
    const here = this.#insertIds()
    const draft = new Draft()
    here.take({ sender, digests: ids }, this.#now(), draft, bucket)
    here.record(draft)
    await this.#apply(draft)
  }

  async *states(): AsyncGenerator<KeptState[]> {
    yield* pieces(this.#states.kept(), PIECE)
  }

  async addStates(states: KeptState[]): Promise<void> {
    const draft = new Draft()
    for (const state of states) this.#states.add(state, draft)
    await this.#apply(draft)
  }

  async keepStates(isOwn: (stateKey: string) => boolean): Promise<void> {
    await transact(this.#open().root, () => this.#states.keep(isOwn))
  }

  async open(version: number): Promise<void> {
    const { closedFor: _, ...meta } = this.#meta
    await this.#put({ ...meta, layout: version })
  }

  async close(): Promise<void> {
    if (!this.#tables) return
    await this.#tables.root.close()
    this.#tables = null
    this.#ids = null
    // A change of the layout opens each journal some ten times.
    await noteSound(this.#path)
  }

  #open(): LmdbTables {
    this.#tables ??= openTables(this.#path)
    return this.#tables
  }

  get #states(): LmdbStates {
    return new LmdbStates(this.#open())
  }

  get #requests(): LmdbRequests {
    return new LmdbRequests(this.#open(), this.#meta.id, ANY_NUMBER, this.#clock)
  }

  /** The clock by which the journal forgets, which may differ from this machine's. */
  get #clock(): MemoryClock | null {
    return MemoryClock.of(this.#open(), this.#clocks)
  }

  #insertIds(): LmdbInsertIds {
    this.#ids ??= new LmdbInsertIds(this.#open(), { clock: this.#clock })
    return this.#ids
  }

  get #meta(): Meta {
    const meta = existsSync(this.#path) && readMeta(this.#open(), this.#path)
    if (!meta) throw new Error('there is no journal in this folder; create it first')
    return meta
  }

  async #apply(draft: Draft): Promise<void> {
    await draft.commit(this.#open().root)
  }

  async #put(meta: Meta): Promise<void> {
    const tables = this.#open()
    await transact(tables.root, () => putMeta(tables, meta))
  }
}

/** @throws Error if it cannot be known, for example because another user's folder is in between */
async function isThere(path: string): Promise<boolean> {
  try {
    await access(path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}
