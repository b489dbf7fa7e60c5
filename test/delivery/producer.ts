import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { randomName, SECRET_KEY, type StoredEvent, until } from '../helper.js'
import { INSIST_LIMIT_MS } from './calls.js'
import { FLAWLESS, type Found, type Ledger, type Outcome } from './ledger.js'

const CALL_LIMIT_MS = 30_000
const PAUSE_MS = 20

/** What makes the events of a repeated call the same. */
interface Names {
  /** an Idempotency-Key for the call */
  hasKey?: boolean
  /** an `insert_id` for each event */
  hasIds?: boolean
}

/** A client that sends numbered events, one call after the other, and records the outcomes in a ledger. */
export class Producer {
  readonly name = randomName('producer')
  readonly #ledger: Ledger
  readonly #url: () => string
  #next = 0
  #firstWithId: number | null = null
  /** status of the last response, or why there was none */
  #last: unknown

  /** @param url the current URL of the service, which a restart may change */
  constructor(ledger: Ledger, url: () => string) {
    this.#ledger = ledger
    this.#url = url
  }

  /** The number of the last event. */
  get last(): number {
    return this.#next - 1
  }

  /** Sends the next `count` events in one call, and does not repeat it. */
  async send(count = 1): Promise<Outcome> {
    const first = this.#take(count)
    const outcome = await this.#call(first, count)
    this.#ledger.note(this.name, first, count, outcome)
    return outcome
  }

  /**
   * Sends the next `count` events, again and again with one Idempotency-Key, until they are acknowledged.
   * @returns the number of attempts
   */
  async insist(count = 1): Promise<number> {
    return await this.#insist(this.#take(count), count, { hasKey: true })
  }

  /**
   * Sends the next `count` events with an `insert_id` each until they are acknowledged, and then sends them again, together
   * with up to as many that `repeat` sent before.
   */
  async repeat(count = 1): Promise<void> {
    const first = this.#take(count)
    await this.#insist(first, count, { hasIds: true })
    this.#firstWithId ??= first
    const from = Math.max(this.#firstWithId, first - count)
    await this.#insist(from, this.#next - from, { hasIds: true })
  }

  async #insist(first: number, count: number, names: Names): Promise<number> {
    const deadline = Date.now() + INSIST_LIMIT_MS
    for (let tries = 1; ; tries++) {
      const outcome = await this.#call(first, count, names)
      this.#ledger.note(this.name, first, count, outcome)
      if (outcome === 'answered') return tries
      if (Date.now() > deadline)
        throw new Error(`${this.name} ${first} got no answer in ${tries} tries, at last ${this.#last}`)
      await wait(PAUSE_MS)
    }
  }

  #take(count: number): number {
    const first = this.#next
    this.#next += count
    return first
  }

  async #call(first: number, count: number, { hasKey, hasIds }: Names = {}): Promise<Outcome> {
    const events = Array.from({ length: count }, (_, i) => ({
      event: 'numbered',
      distinct_id: this.name,
      properties: { number: first + i },
      ...(hasIds && { insert_id: `${this.name}-${first + i}` }),
    }))
    const url = this.#url()
    try {
      const answer = await fetch(`${url}/public/track${count > 1 ? '/batch' : ''}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-api-key': SECRET_KEY,
          ...(hasKey && { 'idempotency-key': `${this.name}-${first}` }),
        },
        body: JSON.stringify(count > 1 ? { events } : events[0]),
        signal: AbortSignal.timeout(CALL_LIMIT_MS),
      })
      await answer.arrayBuffer()
      this.#last = answer.status
      const eventId = answer.headers.get('x-event-id')
      if (eventId) this.#ledger.noteId(this.name, first, eventId)
      if (answer.status === 200) return 'answered'
      return answer.status === 503 ? 'refused' : 'unknown'
    } catch (error) {
      this.#last = (error as Error).cause ?? error
      return 'unknown'
    }
  }
}

/** Converts an event of a page. */
export function foundOf({ distinct_id, properties, eventId }: StoredEvent): Found {
  const { number, edit } = properties
  return { producer: distinct_id, number: Number(number), eventId, ...(edit !== undefined && { edit: Number(edit) }) }
}

/** Reads all events in order; throws if a page is refused or something is still pending. */
export async function* walk(url: string): AsyncGenerator<Found> {
  for (let cursor = ''; ; ) {
    const answer = await fetch(`${url}/public/events?limit=10000${cursor}`, {
      headers: { 'x-api-key': SECRET_KEY },
      signal: AbortSignal.timeout(CALL_LIMIT_MS),
    })
    const page = (await answer.json()) as { events: StoredEvent[]; next: string | null; pending: number }
    if (answer.status !== 200 || page.pending > 0)
      throw new Error(`a page is ${answer.status}, ${page.pending} pending`)
    for (const event of page.events) yield foundOf(event)
    if (page.next === null) return
    cursor = `&cursor=${page.next}`
  }
}

/** Exports all events, in order. */
export async function* readExport(url: string): AsyncGenerator<Found> {
  const { status, body } = await fetch(`${url}/public/export?format=ndjson`, { headers: { 'x-api-key': SECRET_KEY } })
  if (status !== 200 || !body) throw new Error(`an export is ${status}`)
  const lines = createInterface({
    input: Readable.fromWeb(body as ReadableStream),
    crlfDelay: Number.POSITIVE_INFINITY,
  })
  for await (const line of lines) yield foundOf(JSON.parse(line))
}

/** Waits until the service returns all its events, and compares them with those that were sent. */
export async function assertFlawless(t: Test, ledger: Ledger, url: string): Promise<void> {
  const verdict = await until('a complete walk', () => ledger.verdict(walk(url)).catch(() => undefined))
  t.strictSame(verdict, FLAWLESS, `${ledger.answered} acknowledged events are stored once, in order`)
  t.strictSame(await ledger.verdict(walk(url)), FLAWLESS, 'and when they are read again')
}
