import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../lib/log.js'
import { OutageLog } from '../lib/outage-log.js'
import { pause } from '../lib/pause.js'
import { type AuditEntry, SERVICE } from '../model/audit-entry.js'
import { toCreation } from './key-changes.js'
import type { KeyRing } from './key-ring.js'
import { type KeyPair, makeKey, type StoredKey, storedKey } from './keys.js'

/** A revoked key works for up to this long, plus the time that ClickHouse takes to respond. */
const REFRESH_MS = 5_000
/**
 * An unknown key triggers a read of the stored keys. This many reads may follow each other immediately, then one per
 * second.
 */
const LOOK_UPS = 10
const LOOK_UP_MS = 1_000
/** How long a request with an unknown key waits for ClickHouse before it is refused. */
const LOOK_UP_LIMIT_MS = 2_000
const RETRY_MS = 1_000

/** The stored keys. */
export interface KeyTable {
  /** the keys that are valid now */
  read(): Promise<StoredKey[]>
  /** whether there has never been a key, not even a revoked one */
  isEmpty(): Promise<boolean>
  /**
   * Whether this process may make the first keys, which only one may at a time. If it dies before it has, another one
   * may a little later.
   * @param id a UUID, the same when the claim is repeated
   */
  claimFirst(id: string): Promise<boolean>
  /** adds keys atomically; adding the same keys again changes nothing */
  insert(keys: StoredKey[]): Promise<void>
  audit(entries: AuditEntry[]): Promise<void>
}

/** The result of the first read. */
export interface KeysFound {
  /** number of valid keys, including those of the environment */
  valid: number
  /** whether one of them is a secret key */
  hasSecret: boolean
  /**
   * Creates the first pair of keys; null if any key exists, even a revoked one. The pair is shown only once, so call
   * this only in a process that listens and can show it. Retries until ClickHouse has the pair. Resolves with null if
   * another process was first, or the service shuts down first.
   */
  makeFirst: (() => Promise<KeyPair | null>) | null
}

export interface KeyRefreshOptions {
  ring: KeyRing
  table: KeyTable
  log: Pick<Log, 'info' | 'warn'>
  /** aborts every wait */
  closing: AbortSignal
  /** interval between reads, in ms; default 5000 */
  everyMs?: number | undefined
}

/**
 * Refreshes a ring from the stored keys every 5 s, and when an unknown key arrives, so that a new key works
 * immediately.
 *
 * Not promised: while clients send wrong keys, a new key may be refused for up to a second. A revoked key works until
 * the next successful read.
 */
export class KeyRefresh {
  readonly #options: KeyRefreshOptions
  #reading: Promise<void> | null = null
  /** when the latest read began; monotonic, in ms */
  #startedAt = Number.NEGATIVE_INFINITY
  /**
   * when the full number of reads for unknown keys is allowed again; each read postpones it by LOOK_UP_MS; monotonic,
   * in ms
   */
  #restedAt = Number.NEGATIVE_INFINITY
  readonly #outage: OutageLog

  constructor(options: KeyRefreshOptions) {
    this.#options = options
    this.#outage = new OutageLog(options.log, {
      failed: 'the keys could not be read; until they are, revoked keys keep working and new ones do not',
      recovered: 'the keys were read again',
    })
  }

  /**
   * Reads the keys for the first time and then keeps the ring up to date.
   * @param project the project of the first pair
   * @throws StoreError, StoreUnreachableError if the store cannot be read
   */
  async start(project: string): Promise<KeysFound> {
    const { ring, table } = this.#options
    await this.#read()
    const isFirstStart = ring.size === 0 && (await table.isEmpty())
    ring.lookUpBy(() => this.#lookUp())
    void this.#repeat()
    return {
      valid: ring.size,
      hasSecret: ring.hasSecret,
      makeFirst: isFirstStart ? () => this.#makeFirst(project) : null,
    }
  }

  /** Reads the keys after a change of them that this process has made. A failure is logged, and the next read follows. */
  async refresh(): Promise<void> {
    // A read in flight may have begun before the change.
    await this.#reading?.catch(() => undefined)
    await this.#read().catch(() => undefined)
  }

  async #repeat(): Promise<void> {
    const { everyMs = REFRESH_MS, closing } = this.#options
    // The read logs its own failure.
    while (await pause(everyMs, closing)) await this.#read().catch(() => undefined)
  }

  /** Callers share the read in flight. */
  #read(): Promise<void> {
    const read = async () => {
      const { ring, table } = this.#options
      this.#startedAt = performance.now()
      try {
        ring.replaceStored(await table.read())
        this.#outage.noteSuccess()
      } catch (error) {
        this.#outage.noteFailure(error)
        throw error
      } finally {
        this.#reading = null
      }
    }
    this.#reading ??= read()
    return this.#reading
  }

  async #lookUp(): Promise<void> {
    const limit = new AbortController()
    const late = wait(LOOK_UP_LIMIT_MS, undefined, { signal: limit.signal }).catch(() => undefined)
    await Promise.race([this.#readSince(performance.now()), late])
    limit.abort()
  }

  /**
   * Resolves after a read that began at this time or later, if one is allowed. Does not read while the store is known
   * to be unavailable.
   */
  async #readSince(askedAt: number): Promise<void> {
    if (this.#reading && askedAt - this.#startedAt >= LOOK_UP_LIMIT_MS) return
    // A read in flight may have begun before the key was created.
    await this.#reading?.catch(() => undefined)
    if (this.#startedAt < askedAt) {
      const now = performance.now()
      if (this.#outage.isFailing || this.#restedAt - now > (LOOK_UPS - 1) * LOOK_UP_MS) return
      this.#restedAt = Math.max(this.#restedAt, now) + LOOK_UP_MS
      await this.#read().catch(() => undefined)
    } else {
      await this.#reading?.catch(() => undefined)
    }
  }

  async #makeFirst(projectId: string): Promise<KeyPair | null> {
    const { ring, table, log, closing } = this.#options
    const pair = { publicKey: makeKey('public'), secretKey: makeKey('secret') }
    const made = [
      storedKey(pair.publicKey, { projectId, kind: 'public' }),
      storedKey(pair.secretKey, { projectId, kind: 'secret' }),
    ]
    const hashes = new Set(made.map(({ hash }) => hash))
    const claim = randomUUID()
    let isLogged = false
    do {
      try {
        // The stored keys may be this very pair, from an attempt whose response was lost.
        if (!(await table.isEmpty()) && !(await table.read()).some(({ hash }) => hashes.has(hash))) return null
        // Other processes that start at the same time have found no keys, either.
        if (!(await table.claimFirst(claim))) continue
        if (!isLogged) await table.audit(made.map((key) => toCreation(key, SERVICE)))
        isLogged = true
        await table.insert(made)
        ring.replaceStored(made)
        return pair
      } catch (error) {
        log.warn(
          { err: error },
          'the first keys could not be stored; retrying, and showing them once ClickHouse has them',
        )
      }
    } while (await pause(RETRY_MS, closing))
    return null
  }
}
