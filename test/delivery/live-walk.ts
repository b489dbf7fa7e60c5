import type { StoredEvent } from '../helper.js'
import { call, type Findings } from './calls.js'
import type { Client } from './clients.js'
import type { Ledger, Reading, Verdict } from './ledger.js'
import { foundOf } from './producer.js'

const LIMIT = 500

/**
 * Walks through the events while their number grows: reads the last page again and again until there is a next one. If
 * an event appears before one that was read already, readers would miss it.
 */
export class LiveWalk implements Client {
  readonly #url: () => string
  readonly #findings: Findings
  readonly #reading: Reading
  #cursor = ''
  /** ids seen on the last page so far */
  #onPage = new Set<string>()
  #lastId = ''

  /** @param url of any service, another one each time */
  constructor(url: () => string, ledger: Ledger, findings: Findings) {
    this.#url = url
    this.#findings = findings
    this.#reading = ledger.liveReading()
  }

  async step(): Promise<void> {
    await this.#read()
  }

  /** Walks to the end, after the last event was sent. */
  async verdict(): Promise<Verdict> {
    while (!(await this.#read()));
    return this.#reading.verdict()
  }

  /** @returns whether this was the end, with nothing after it */
  async #read(): Promise<boolean> {
    const reply = await call(this.#url(), { path: `/public/events?limit=${LIMIT}${this.#cursor}` })
    if (reply === null || reply.status === 503) return false
    if (reply.status !== 200) {
      this.#findings.blame('rejected', `a page: ${reply.text}`)
      return false
    }
    const { events, next, pending } = reply.body as { events: StoredEvent[]; next: string | null; pending: number }
    this.#findings.counts.pages++
    for (const event of events) this.#see(event)
    if (next === null) return pending === 0
    this.#cursor = `&cursor=${next}`
    this.#onPage = new Set()
    return false
  }

  #see(event: StoredEvent): void {
    const { eventId } = event
    if (eventId > this.#lastId) {
      this.#reading.see(foundOf(event))
      this.#onPage.add(eventId)
      this.#lastId = eventId
    } else if (!this.#onPage.has(eventId)) {
      this.#findings.blame('skipped', `${eventId} appeared when ${this.#lastId} had been seen`)
    }
  }
}
