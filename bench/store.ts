import { setTimeout as wait } from 'node:timers/promises'
import { IN_MEMORY } from '../src/clickhouse/connection.js'
import { formatEventId } from '../src/model/event-id.js'

/** Events of one journal entry, as in an import of full batches. */
const PER_ENTRY = 1000
/** Between two entries. With this, 20 million events are within seven minutes, and so in one partition. */
const ENTRY_STEP_MS = 20
const IMPORTED_BEFORE_MS = 60 * 86_400_000
/** The journal id of the generated events; the service draws its own at random. */
const FILL_JOURNAL = 1
/** The project of the service's key. */
export const PROJECT = 'default'
/** Merges that take longer continue; they disturb both sides of a round alike. */
const QUIET_LIMIT_MS = 15_000

/** ClickHouse, queried directly and not through the service. */
export class Store {
  readonly url: string
  readonly database: string
  readonly authorization: string

  /** @param url http://user:password@host:port/database */
  constructor(url: string) {
    const address = new URL(url)
    this.url = address.origin
    this.database = address.pathname.slice(1)
    this.authorization = `Basic ${Buffer.from(`${address.username}:${address.password}`).toString('base64')}`
  }

  /** @returns the result as text, without its last line end */
  async text(query: string, settings: Record<string, string | number> = {}): Promise<string> {
    const response = await fetch(`${this.url}${this.path(settings)}`, {
      method: 'POST',
      body: query,
      headers: { authorization: this.authorization },
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`ClickHouse refused ${query.slice(0, 200)}: ${text}`)
    return text.trimEnd()
  }

  /** The path and query string of a query with these settings and parameters. */
  path(settings: Record<string, string | number>): string {
    const all = { database: this.database, ...IN_MEMORY, async_insert: 0, ...settings }
    const texts = Object.entries(all).map(([name, value]): [string, string] => [name, String(value)])
    return `/?${new URLSearchParams(texts)}`
  }

  async number(query: string): Promise<number> {
    return Number(await this.text(query))
  }

  count(): Promise<number> {
    return this.number('SELECT count() FROM events')
  }

  /** Waits until no merge is running, so that the work that one measurement left does not slow the next. */
  async quiet(): Promise<void> {
    const deadline = Date.now() + QUIET_LIMIT_MS
    while (Date.now() < deadline) {
      if ((await this.number('SELECT count() FROM system.merges')) === 0) return
      await wait(50)
    }
  }

  /** Merges all events into one part, so that no merge is due. */
  async merge(): Promise<void> {
    await this.text('OPTIMIZE TABLE events FINAL')
    await this.quiet()
  }

  /** CPU time of ClickHouse's queries and merges so far, µs. */
  cpuUs(): Promise<number> {
    return this.number("SELECT value FROM system.events WHERE event = 'OSCPUVirtualTimeMicroseconds'")
  }

  /**
   * Replaces all events by `count` others, which ClickHouse generates itself: a million per second and more. @param age
   * of the first event; imported events were stored within minutes, two months ago. Default: minutes
   */
  async fill(count: number, age?: { ms: number; isImported: boolean }): Promise<Filled> {
    const entries = Math.ceil(count / PER_ENTRY)
    const stepMs = age && !age.isImported ? Math.floor(age.ms / entries) : ENTRY_STEP_MS
    // Before every position that the service assigns, so that readers may see them.
    const startMs = Date.now() - (age?.isImported ? IMPORTED_BEFORE_MS : 60_000) - entries * stepMs
    const time = age?.isImported ? `${Date.now() - age.ms} + intDiv(${Math.floor(age.ms)} * number, ${count})` : 'ms'
    await this.text('TRUNCATE TABLE events')
    await this.text(
      `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
       WITH
         toUInt64(${startMs} + intDiv(number, ${PER_ENTRY}) * ${stepMs}) AS ms,
         bitOr(bitShiftLeft(ms, 16), toUInt64(0x7000)) AS high,
         bitOr(bitOr(bitShiftLeft(toUInt64(2), 62), bitShiftLeft(toUInt64(number % ${PER_ENTRY}), 32)), toUInt64(${FILL_JOURNAL})) AS low,
         cityHash64(number) AS random
       SELECT
         '${PROJECT}',
         reinterpret(bitOr(bitShiftLeft(toUInt128(low), 64), toUInt128(high)), 'UUID'),
         if(random % 4 = 0, 'prerelease published', 'release published'),
         concat('package-', toString(random % 50000)),
         ${time},
         ms,
         format('{{"version":"{}.{}.{}","major":{},"prerelease":null}}', toString(random % 25), toString(random % 17), toString(random % 101), toString(random % 25))
       FROM numbers(${count})`,
      // In a few large parts, as merges would leave them.
      {
        max_insert_threads: 1,
        min_insert_block_size_rows: 2_000_000,
        min_insert_block_size_bytes: 2_000_000_000,
        max_partitions_per_insert_block: 1000,
      },
    )
    await this.quiet()
    return {
      count,
      id: (n) =>
        formatEventId({
          position: BigInt(startMs + Math.floor(n / PER_ENTRY) * stepMs) << 16n,
          index: n % PER_ENTRY,
          journalId: FILL_JOURNAL,
        }),
    }
  }
}

export interface Filled {
  count: number
  /** the id of the n-th event, from 0 */
  id(n: number): string
}
