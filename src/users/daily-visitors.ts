import { createHmac, randomBytes } from 'node:crypto'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS } from '../contract/durations.js'
import { ApiError } from '../contract/errors.js'
import { DAILY_VISITOR_PREFIX, type Visit } from '../contract/user-names.js'
import { toDay } from '../lib/day.js'
import type { Log } from '../lib/log.js'
import { oncePerMinute } from '../lib/once-per-minute.js'
import { pause } from '../lib/pause.js'
import { dropVisitorSalts, ensureVisitorSalts, type VisitorSalts } from '../store/visitor-salts.js'

/** How often the salts are refreshed; tomorrow's exists a day before it is needed. */
const REFRESH_MS = 10 * 60_000
const SALT_BYTES = 32
/** Bytes of the HMAC in a name. The probability that any two of a million visitors share a name is below 10^-16. */
const NAME_BYTES = 12

export interface DailyVisitorsOptions {
  shards: Shards
  log: Pick<Log, 'warn'>
  /** aborts every wait */
  closing: AbortSignal
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/**
 * Names visitors of pages that store nothing in the browser: a visitor has the same name all day (UTC), made from the
 * address, the User-Agent and a random salt of the day that all processes share. Once the salt is destroyed, nobody can
 * find out whose name it was. Someone who visits on two days counts as two users.
 */
export class DailyVisitors {
  readonly #options: DailyVisitorsOptions
  #salts: VisitorSalts = new Map()
  #isStarted = false
  #isRefreshing = false
  readonly #warn: (error: unknown) => void

  constructor(options: DailyVisitorsOptions) {
    this.#options = options
    this.#warn = oncePerMinute((error) =>
      options.log.warn({ err: error }, 'the salts of daily visitors could not be read; they will be read again'),
    )
  }

  /**
   * From now on, makes sure that the salts of today and tomorrow exist, and destroys those from before yesterday.
   * @throws StoreError, StoreUnreachableError at the first read
   */
  async start(): Promise<void> {
    await this.#refresh()
    if (this.#isStarted) return
    this.#isStarted = true
    void this.#repeat()
  }

  /**
   * The name of the visitor who makes a request now.
   * @throws ApiError `unavailable` while there is no salt for today, because ClickHouse has been unreachable
   */
  name({ projectId, address, userAgent }: Visit): string {
    const salt = this.#salts.get(toDay(this.#now()))
    if (salt === undefined) {
      void this.#tryRefresh()
      throw new ApiError('unavailable', "Today's visitors cannot be told apart yet. Try again in a moment.")
    }
    const digest = createHmac('sha256', salt)
      .update(JSON.stringify([projectId, address, userAgent]))
      .digest()
    return DAILY_VISITOR_PREFIX + digest.toString('base64url', 0, NAME_BYTES)
  }

  async #repeat(): Promise<void> {
    while (await pause(REFRESH_MS, this.#options.closing)) await this.#tryRefresh()
  }

  /** Refreshes the salts unless a refresh is in progress. A failure is only logged. */
  async #tryRefresh(): Promise<void> {
    if (this.#isRefreshing) return
    this.#isRefreshing = true
    await this.#refresh().catch(this.#warn)
    this.#isRefreshing = false
  }

  async #refresh(): Promise<void> {
    const { shards } = this.#options
    const now = this.#now()
    const days = [toDay(now), toDay(now + DAY_MS)]
    this.#salts = await ensureVisitorSalts(shards, days, () => randomBytes(SALT_BYTES).toString('base64url'))
    await dropVisitorSalts(shards, toDay(now - DAY_MS))
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }
}
