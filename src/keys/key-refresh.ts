import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../lib/log.js'
import { type KeyPair, type KeyRing, makeKey, type StoredKey, storedKey } from './keys.js'

/** A revoked key stops working this late, and as much later as ClickHouse takes to answer. */
const REFRESH_MS = 5_000
/** Unknown keys have the stored ones read again at most this often, however many come. */
const LOOK_UP_MS = 1_000
/** How long a request with an unknown key waits for ClickHouse before it is refused. */
const LOOK_UP_LIMIT_MS = 2_000
const RETRY_MS = 1_000

/** The table of the keys. */
export interface KeyTable {
  /** the keys that are good at the moment */
  read(): Promise<StoredKey[]>
  /** whether there has never been a key, not even one that was revoked */
  isEmpty(): Promise<boolean>
  /** adds keys, all or none; adding the same again changes nothing */
  insert(keys: StoredKey[]): Promise<void>
}

/** What the first read of the keys found. */
export interface KeysFound {
  /** keys that are good, those of the environment included */
  good: number
  /**
   * Makes the pair of a first start; null where there is any key already, a revoked one too. Nothing else shows the pair,
   * so it is to be called where it can be shown: by a process that listens. Resolves with null where another process was
   * faster, or the service ends; tries until ClickHouse answers.
   */
  makeFirst: (() => Promise<KeyPair | null>) | null
}

export interface KeyRefreshOptions {
  ring: KeyRing
  table: KeyTable
  log: Log
  /** ends every wait */
  closing: AbortSignal
  /** how often the keys are read again, in ms; default 5000 */
  everyMs?: number | undefined
}

/**
 * Keeps a ring up to date with the stored keys: every 5 s, and when a key comes that the ring does not have, so that a
 * new one is good at once.
 *
 * Not promised: while others send wrong keys, a new one may be refused for up to a second; and a revoked one is good
 * until the next read.
 */
export class KeyRefresh {
  readonly #options: KeyRefreshOptions
  #reading: Promise<void> | null = null
  /** when the latest read began, and the latest for an unknown key; in ms of the monotonic clock */
  #startedAt = Number.NEGATIVE_INFINITY
  #lookedUpAt = Number.NEGATIVE_INFINITY
  #isReadable = true

  constructor(options: KeyRefreshOptions) {
    this.#options = options
  }

  /**
   * The first read, after which the ring is complete and kept up to date.
   * @param project of the pair that a first start makes
   * @throws where the store cannot be read
   */
  async start(project: string): Promise<KeysFound> {
    const { ring, table } = this.#options
    await this.#read()
    const isFirstStart = ring.size === 0 && (await table.isEmpty())
    ring.lookUpBy(() => this.#lookUp())
    void this.#repeat()
    return { good: ring.size, makeFirst: isFirstStart ? () => this.#makeFirst(project) : null }
  }

  async #repeat(): Promise<void> {
    const { log, everyMs = REFRESH_MS } = this.#options
    while (await this.#elapsed(everyMs)) {
      await this.#read().catch((error) => {
        log.debug({ err: error }, 'the keys could not be read again; the known ones stay')
      })
    }
  }

  /** One at a time; who comes while one is under way waits for that one. */
  #read(): Promise<void> {
    const read = async () => {
      const { ring, table } = this.#options
      this.#startedAt = performance.now()
      try {
        ring.replaceStored(await table.read())
        this.#isReadable = true
      } catch (error) {
        this.#isReadable = false
        throw error
      } finally {
        this.#reading = null
      }
    }
    this.#reading ??= read()
    return this.#reading
  }

  /** Never waits while the store is known to be unavailable: wrong keys are refused then, and good ones served. */
  async #lookUp(): Promise<void> {
    const now = performance.now()
    const isAllowed = this.#isReadable && now - this.#lookedUpAt >= LOOK_UP_MS
    if (this.#reading ? now - this.#startedAt >= LOOK_UP_LIMIT_MS : !isAllowed) return
    if (!this.#reading) this.#lookedUpAt = now
    const read = this.#read().catch(() => undefined)
    const limit = new AbortController()
    await Promise.race([read, wait(LOOK_UP_LIMIT_MS, undefined, { signal: limit.signal }).catch(() => undefined)])
    limit.abort()
  }

  async #makeFirst(projectId: string): Promise<KeyPair | null> {
    const { ring, table, log } = this.#options
    const pair = { publicKey: makeKey('public'), secretKey: makeKey('secret') }
    const made = [
      storedKey(pair.publicKey, { projectId, kind: 'public' }),
      storedKey(pair.secretKey, { projectId, kind: 'secret' }),
    ]
    const hashes = new Set(made.map(({ hash }) => hash))
    do {
      try {
        // What is there may be this very pair, of a try whose answer was lost.
        if (!(await table.isEmpty()) && !(await table.read()).some(({ hash }) => hashes.has(hash))) return null
        await table.insert(made)
        ring.replaceStored(made)
        return pair
      } catch (error) {
        log.warn({ err: error }, 'the first keys could not be stored; they are shown once ClickHouse has them')
      }
    } while (await this.#elapsed(RETRY_MS))
    return null
  }

  /** @returns false where the service ends first */
  async #elapsed(ms: number): Promise<boolean> {
    const { closing } = this.#options
    await wait(ms, undefined, { signal: closing, ref: false }).catch(() => undefined)
    return !closing.aborted
  }
}
