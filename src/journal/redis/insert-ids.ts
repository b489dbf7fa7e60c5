import { KEY_CLASSES } from '../../contract/key-class.js'
import type { SentIds } from '../../model/insert-id.js'
import { parseSender, type Sender, senderName } from '../../model/sender.js'
import { type IdUse, shortenedSince, warnOfShortMemory } from '../insert-id-memory.js'
import type { IdMemory } from '../journal.js'
import { parseIndexes } from './encoding.js'
import { BYTES_PER_ID } from './maxmemory.js'
import type { RunScript } from './script.js'
import { COUNT_INSERT_IDS, FIND_INSERT_IDS, FORGET_INSERT_IDS, SWEEP } from './scripts.js'

/** Part of maxmemory that all ids together may take. */
const SHARE_OF_ALL = 1 / 2
/** Pauses between two sweeps, ms; the short one while there is more to remove. */
const SWEEP_MS = 5_000
const BUSY_SWEEP_MS = 100
/** How many senders a sweep inspects, and how many hashes it removes at most. It blocks Redis for a few ms. */
const SWEPT = 200
const REMOVED = 5_000
/** How fast the clock by which ids expire catches up with the clock of Redis; see `MemoryClock`. */
const CATCH_UP = 2

export interface RedisInsertIdsOptions {
  prefix: string
  run: RunScript
  /** bytes; 0: no limit */
  maxmemory(): number
  log: { warn(fields: object, message: string): void }
}

/** The Redis journal's ids, for everything but writes. */
export class RedisInsertIds implements IdMemory {
  readonly #options: RedisInsertIdsOptions
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #cursor = '0'
  /** what the sweep has seen since it last began with the first sender */
  #seen: IdUse[] = []
  /** how many ids all senders had in the last complete sweep */
  #ids = 0
  /** the time by which ids expire, and when Redis reported it (`performance.now()`) */
  #remembered: { ms: number; at: number } | null = null

  constructor(options: RedisInsertIdsOptions) {
    this.#options = options
  }

  /** Memory that the ids of all senders take, in bytes, according to the last sweep. */
  get bytes(): number {
    return this.#ids * BYTES_PER_ID
  }

  /** Begins to sweep, until `close`. */
  start(): void {
    const run = async () => {
      // Redis may be down; the next sweep tries again.
      const isBusy = await this.#sweep().catch(() => false)
      if (!this.#isClosed) this.#timer = setTimeout(run, isBusy ? BUSY_SWEEP_MS : SWEEP_MS).unref()
    }
    void run()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async find({ sender, digests }: SentIds): Promise<number[]> {
    const { prefix, run } = this.#options
    return parseIndexes(String(await run(FIND_INSERT_IDS, { prefix, sender: senderName(sender), ids: digests })))
  }

  async forget(sender: Sender): Promise<void> {
    let isLeft = await this.#forget(sender, 'all')
    while (isLeft) isLeft = await this.#forget(sender, '')
  }

  async use(projectId?: string): Promise<IdUse[]> {
    const uses = projectId === undefined ? await this.#countAllUse() : await this.#countUse(projectId)
    return uses.filter(({ ids }) => ids > 0)
  }

  async #countUse(projectId: string): Promise<IdUse[]> {
    const names = KEY_CLASSES.map((keyClass) => senderName({ projectId, keyClass }))
    const { prefix, run } = this.#options
    return usesIn((await run(COUNT_INSERT_IDS, { prefix }, names)) as Buffer[])
  }

  async #countAllUse(): Promise<IdUse[]> {
    const found = new Map<string, IdUse>()
    let cursor = '0'
    do {
      const step = await this.#step(cursor)
      for (const one of step.uses) found.set(senderName(one.sender), one)
      cursor = step.cursor
    } while (cursor !== '0')
    return [...found.values()]
  }

  /** Warns of senders whose ids are known for a shorter time from now on. */
  warn(senders: readonly Sender[]): void {
    for (const sender of senders) warnOfShortMemory(this.#options.log, sender)
  }

  /** @returns whether there is more to remove */
  async #sweep(): Promise<boolean> {
    const { cursor, isBusy, uses } = await this.#step(this.#cursor)
    this.#cursor = cursor
    this.#seen.push(...uses)
    if (cursor !== '0') return isBusy
    const seen = this.#seen
    this.#seen = []
    this.#ids = seen.reduce((sum, { ids }) => sum + ids, 0)
    await this.#limit(seen)
    return isBusy
  }

  /** If all senders together have too many ids, the sender with the most forgets its oldest. */
  async #limit(seen: readonly IdUse[]): Promise<void> {
    const limit = this.#options.maxmemory()
    if (limit === 0 || this.bytes <= limit * SHARE_OF_ALL) return
    const [largest] = [...seen].sort((a, b) => b.ids - a.ids)
    if (largest) await this.#forget(largest.sender, 'oldest', largest.ids)
  }

  /** @param least does nothing if there are fewer ids, because another process was first */
  async #forget(sender: Sender, which: 'all' | 'oldest' | '', least = 0): Promise<boolean> {
    const { prefix, run } = this.#options
    const [isLeft, shortened] = (await run(FORGET_INSERT_IDS, {
      prefix,
      sender: senderName(sender),
      which,
      least: String(least),
      hashes: String(REMOVED),
    })) as [number, Buffer]
    if (shortened.length > 0) this.warn([sender])
    return isLeft === 1
  }

  async #step(cursor: string): Promise<{ cursor: string; isBusy: boolean; uses: IdUse[] }> {
    const told = this.#remembered
    const at = performance.now()
    const latest = told ? told.ms + CATCH_UP * (at - told.at) : 0
    const { prefix, run } = this.#options
    const [next, remembered, isBusy, ...rest] = (await run(SWEEP, {
      prefix,
      cursor,
      senders: String(SWEPT),
      hashes: String(REMOVED),
      latest: latest.toFixed(0),
    })) as [Buffer, Buffer, number]
    this.#remembered = { ms: Number(remembered), at }
    const uses = usesIn(rest)
    return { cursor: String(next), isBusy: isBusy === 1, uses }
  }
}

/** @param reply for each sender its name, the number of its ids, `since`, or 0, and `requested`, 0 or 1 */
function usesIn(reply: readonly (Buffer | number)[]): IdUse[] {
  const uses: IdUse[] = []
  for (let i = 0; i < reply.length; i += 4) {
    const [name = '', ids, since, requested] = reply.slice(i, i + 4).map(String)
    const shortened = shortenedSince(since === '0' ? null : Number(since), Date.now())
    uses.push({ sender: parseSender(name), ids: Number(ids), since: shortened, isRequested: requested === '1' })
  }
  return uses
}
