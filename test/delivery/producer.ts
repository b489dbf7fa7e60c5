import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { randomName, SECRET_KEY, type StoredEvent, until } from '../helper.js'
import { FLAWLESS, type Found, type Ledger, type Outcome } from './ledger.js'

/** How long a call is retried; a killed service is back within seconds. */
const INSIST_LIMIT_MS = 60_000
const CALL_LIMIT_MS = 30_000
const PAUSE_MS = 20

/** A client that sends numbered events, one call after the other, and records the outcomes in a ledger. */
export class Producer {
  readonly name = randomName('producer')
  readonly #ledger: Ledger
  readonly #url: () => string
  #next = 0

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
   * Sends the next `count` events, again and again with one Idempotency-Key, until they are acknowledged. @returns the
   * number of attempts
   */
  async insist(count = 1): Promise<number> {
    const first = this.#take(count)
    const deadline = Date.now() + INSIST_LIMIT_MS
    for (let tries = 1; ; tries++) {
      const outcome = await this.#call(first, count, `${this.name}-${first}`)
      this.#ledger.note(this.name, first, count, outcome)
      if (outcome === 'answered') return tries
      if (Date.now() > deadline) throw new Error(`${this.name} ${first} got no answer in ${tries} tries`)
      await wait(PAUSE_MS)
    }
  }

  #take(count: number): number {
    const first = this.#next
    this.#next += count
    return first
  }

  async #call(first: number, count: number, idempotencyKey?: string): Promise<Outcome> {
    const events = Array.from({ length: count }, (_, i) => ({
      event: 'numbered',
      distinct_id: this.name,
      properties: { number: first + i },
    }))
    const url = this.#url()
    try {
      const answer = await fetch(`${url}/public/track${count > 1 ? '/batch' : ''}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-api-key': SECRET_KEY,
          ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
        },
        body: JSON.stringify(count > 1 ? { events } : events[0]),
        signal: AbortSignal.timeout(CALL_LIMIT_MS),
      })
      await answer.arrayBuffer()
      const eventId = answer.headers.get('x-event-id')
      if (eventId) this.#ledger.noteId(this.name, first, eventId)
      if (answer.status === 200) return 'answered'
      return answer.status === 503 ? 'refused' : 'unknown'
    } catch {
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

/** Waits until the service returns all its events, and compares them with those that were sent. */
export async function assertFlawless(t: Test, ledger: Ledger, url: string): Promise<void> {
  const verdict = await until('a complete walk', () => ledger.verdict(walk(url)).catch(() => undefined))
  t.strictSame(verdict, FLAWLESS, `${ledger.answered} acknowledged events are stored once, in order`)
  t.strictSame(await ledger.verdict(walk(url)), FLAWLESS, 'and when they are read again')
}
