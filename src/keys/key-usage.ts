import { toDay } from '../lib/day.js'
import type { Log } from '../lib/log.js'
import { OutageLog } from '../lib/outage-log.js'
import { pause } from '../lib/pause.js'
import { withTimeout } from '../lib/with-timeout.js'
import type { StoredKey } from './keys.js'

/** How often the use of keys is stored, ms. */
const STORE_MS = 60_000
/** How long a shutdown may take to store it, ms. */
const CLOSE_MS = 1_000

/** The use of a key since it was last stored. */
export interface KeyUse {
  projectId: string
  /** the id of the key */
  id: string
  /** the day, such as 2026-11-26, in UTC; null if it was not used */
  usedOn: string | null
  refused: number
  refusedOn: string | null
}

/** Where the use of keys is stored. */
export interface UsageTable {
  add(uses: KeyUse[]): Promise<void>
}

export interface KeyUsageOptions {
  table: UsageTable
  log: Pick<Log, 'info' | 'warn'>
  /** aborts the wait for the next time */
  closing: AbortSignal
  /** default 60 000 */
  everyMs?: number | undefined
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/**
 * Counts in memory how this process uses and refuses each valid key, and stores the counts once a minute if they have
 * changed. The day of a key's last use is stored once a day.
 *
 * Not promised: a process that is killed loses its last minute, and if the store's response is lost, the refusals of a
 * minute count twice.
 */
export class KeyUsage {
  readonly #options: KeyUsageOptions
  /** by hash: the key, and the day of the first use that is not stored */
  #used = new Map<string, { key: StoredKey; day: string }>()
  #refused = new Map<string, { key: StoredKey; count: number; day: string }>()
  /** by hash: the last day whose use is stored */
  readonly #stored = new Map<string, string>()
  readonly #outage: OutageLog

  constructor(options: KeyUsageOptions) {
    this.#options = options
    this.#outage = new OutageLog(options.log, {
      failed: 'the last use of keys could not be stored; trying again every minute',
      recovered: 'the last use of keys was stored again',
    })
    void this.#repeat()
  }

  /** Notes an admitted request. It runs for every event, so it does as little as possible. */
  noteUse(key: StoredKey): void {
    if (!this.#used.has(key.hash)) this.#used.set(key.hash, { key, day: this.#today() })
  }

  /** Counts a request that its key, although valid, may not make. */
  noteRefusal(key: StoredKey): void {
    const refused = this.#refused.get(key.hash)
    this.#refused.set(key.hash, { key, count: (refused?.count ?? 0) + 1, day: this.#today() })
  }

  /** Stores what is new, if that is possible within a second. */
  async close(): Promise<void> {
    await withTimeout(this.#store(), CLOSE_MS).catch(() => undefined)
  }

  async #repeat(): Promise<void> {
    const { everyMs = STORE_MS, closing } = this.#options
    while (await pause(everyMs, closing)) await this.#store()
  }

  async #store(): Promise<void> {
    const { table } = this.#options
    const [used, refused] = [this.#used, this.#refused]
    this.#used = new Map()
    this.#refused = new Map()
    const fresh = new Map([...used].filter(([hash, { day }]) => this.#stored.get(hash) !== day))
    const keys = new Map([...fresh, ...refused].map(([hash, { key }]) => [hash, key]))
    if (keys.size === 0) return
    const uses = [...keys].map(([hash, { projectId, id }]): KeyUse => {
      const { count = 0, day: refusedOn = null } = refused.get(hash) ?? {}
      return { projectId, id, usedOn: fresh.get(hash)?.day ?? null, refused: count, refusedOn }
    })
    try {
      await table.add(uses)
      for (const [hash, { day }] of fresh) this.#stored.set(hash, day)
      for (const [hash, day] of this.#stored) if (day < this.#today()) this.#stored.delete(hash)
      this.#outage.noteSuccess()
    } catch (error) {
      this.#outage.noteFailure(error)
      for (const [hash, use] of fresh) this.#used.set(hash, use)
      for (const [hash, { key, count, day }] of refused) {
        const since = this.#refused.get(hash)
        this.#refused.set(hash, { key, count: count + (since?.count ?? 0), day: since?.day ?? day })
      }
    }
  }

  /** The day (UTC), such as 2026-11-26. */
  #today(): string {
    return toDay((this.#options.now ?? Date.now)())
  }
}
