import { newId, type SiteStorage } from './site-storage.js'

export interface OutboxOptions {
  /** address of the service */
  url: string
  key: string
  /** goes into the URL of each call */
  query: string
  storage: SiteStorage
}

/** How long a call may take, and how old an entry of another page must be to count as abandoned. */
const CALL_MS = 10_000
/** Less than the 7 days for which the service recognizes an event that is sent again. */
const KEPT_MS = 6 * 86_400_000
const MAX_KEPT = 500
/**
 * Maximum length of a body in characters of up to 3 bytes each. Browsers allow 64 KiB in flight for requests that
 * outlive their page.
 */
const MAX_BODY = 15_000

/**
 * Events and aliases on their way to the service. Each is a separate entry in the storage, so tabs do not overwrite
 * each other's, and stays there until the service has answered. An entry whose answer never came, perhaps because the
 * page was left, is sent again by this page or a later one with the same key; its `insert_id` keeps it from being stored
 * twice. Names begin with the key, because pages of a site may have different ones, even of different services. They have
 * the time of their entry, so those of a key sort in the order of the events.
 */
export class Outbox {
  readonly #options: OutboxOptions
  readonly #storage: SiteStorage
  /** the entries of this page */
  readonly #own = new Set<string>()
  readonly #inFlight = new Set<string>()
  /** the time of the last entry, epoch ms; no two of a page have the same */
  #lastAt = 0

  constructor(options: OutboxOptions) {
    this.#options = options
    this.#storage = options.storage
  }

  /** @param isLeaving as for `send` */
  add(kind: 'event' | 'user', body: object, isLeaving?: boolean): void {
    this.#lastAt = Math.max(this.#lastAt + 1, Date.now())
    const name = `${this.#options.key} ${kind} ${this.#lastAt} ${newId()}`
    const due = this.#listDue()
    if (due[MAX_KEPT - 1]) {
      const oldest = due[0] as string
      // The outbox is full. If its oldest entry is new, the page has recorded all of them at the same time and sent
      // none yet; after an outage, they wait for the next beat.
      if (computeAge(oldest) < CALL_MS) void this.send(isLeaving, Infinity)
      // An entry in flight stays, because its batch may be refused for another one, or not be answered.
      if (!this.#inFlight.has(oldest)) this.#storage.remove(oldest)
    }
    this.#own.add(name)
    this.#storage.write(name, JSON.stringify(body))
    // Entries that are added in the same turn share a request.
    queueMicrotask(() => this.send(isLeaving))
  }

  /**
   * Sends the entries that are due. One request is in flight at a time, so that the service gets events in order.
   * @param isLeaving whether the page may be gone before a request in flight is answered
   * @param room maximum length of a body
   */
  async send(isLeaving?: boolean, room = MAX_BODY): Promise<void> {
    if (this.#inFlight.size > 0 && !isLeaving) return
    const names = this.#listDue().filter((name, index) => {
      room -= (this.#storage.read(name) ?? '').length
      // Aliases come last, each in a separate request.
      return !index || (room > 0 && !isAlias(name))
    })
    if (!names[0]) return
    const isDone = this.#deliver(names)
    // A page that is being left cannot wait.
    if (isLeaving || (await isDone)) void this.send(isLeaving)
  }

  /**
   * The names of the entries that this page may send, or remove to make room, oldest first. Those that are too old are
   * removed, whatever their key: it may have been replaced.
   */
  #listDue(): string[] {
    return this.#storage.list('wk_').filter((name) => {
      const age = computeAge(name)
      if (age > KEPT_MS) return this.#storage.remove(name)
      return name.startsWith(this.#options.key) && (age > CALL_MS || this.#own.has(name)) && !this.#inFlight.has(name)
    })
  }

  /**
   * Allows entries that were in flight when the page went into the back/forward cache to be sent again, because their
   * answers may never come.
   */
  forget(): void {
    this.#inFlight.clear()
  }

  /** @returns whether the service has decided about all of them */
  async #deliver(names: string[]): Promise<boolean> {
    for (const name of names) this.#inFlight.add(name)
    const texts = names.map((name) => this.#toText(name))
    const [status, text] = await (isAlias(names[0] as string)
      ? this.call('users/alias', texts.join())
      : this.call('track/batch', `{"events":[${texts}]}`))
    // The service has decided unless there was no answer (0), it failed (5xx), a proxy did not find it while it
    // restarted (404), a timeout ended the call (408), or there were too many requests (429).
    let isDecided = status < 500 && ![0, 404, 408, 429].includes(status)
    for (const name of names) {
      // The service refuses a whole batch for one bad event.
      if (isDecided && status > 399 && names[1]) isDecided = await this.#deliver([name])
      else if (isDecided) {
        if (status > 399) console.error('Tallyhouse:', text)
        this.#storage.remove(name)
      }
      this.#inFlight.delete(name)
    }
    return isDecided
  }

  /** Clocks of browsers may be wrong, so an event has its time only if it is late. */
  #toText(name: string): string {
    const text = this.#storage.read(name) ?? ''
    return computeAge(name) > CALL_MS ? `${text.slice(0, -1)},"timestamp":${readTime(name)}}` : text
  }

  /**
   * Makes a call that outlives the page.
   * @param body an object as JSON, without the key
   * @returns status 0 if there was no answer
   */
  async call(path: string, body: string): Promise<[status: number, text: string]> {
    const { url, key, query } = this.#options
    try {
      const response = await fetch(`${url}/public/${path}${query}`, {
        method: 'POST',
        body: `{"apiKey":"${key}",${body.slice(1)}`,
        // Session calls take text/plain as well, which needs no preflight.
        headers: path[0] === 's' ? {} : { 'content-type': 'application/json' },
        keepalive: body.length <= MAX_BODY,
        credentials: 'omit',
        // Browsers from before 2022 do not have it.
        signal: AbortSignal.timeout?.(CALL_MS),
      })
      return [response.status, await response.text()]
    } catch {
      return [0, '']
    }
  }
}

const isAlias = (name: string) => name.includes(' user ')
const readTime = (name: string) => +(name.split(' ')[2] as string)
const computeAge = (name: string) => Date.now() - readTime(name)
