export interface SessionOptions {
  /** where the service is, such as `https://tallyhouse.example.com` */
  url: string
  /** the project's public key; a secret one is refused, as every visitor could read it */
  publicKey: string
  /** who is here: 1 to 255 characters */
  distinct_id: string
  /**
   * of the session, from the page on which it begins, such as where the visitor comes from: the following pages of the
   * session may give others, which are not sent
   */
  initialProperties?: object
  /** of the session; each page of it may add some, and overwrites those of the same name */
  properties?: object
  /** the pause between two heartbeats while the page is visible, in milliseconds; 15 000 where absent */
  heartbeatMs?: number
  /** out of sight for longer than this, in milliseconds, the session is over; 30 minutes where absent */
  timeoutMs?: number
  /** whether a page that goes without a navigation ends the session, as the tab was probably closed; true where absent */
  endOnClose?: boolean
  /** told of each call that failed; the next heartbeat makes up for what can succeed later */
  onError?: (failure: CallFailure) => void
}

export interface CallFailure {
  /** a word of the service, or `network` where no answer came */
  code: string
  /** a sentence for a developer */
  message: string
}

interface Failure extends CallFailure {
  /** 0 where no answer came */
  status: number
}

type CallName = 'start' | 'update' | 'end'

/** What the pages of a tab hand on to each other. Times are epoch milliseconds. */
interface Visit {
  id: string
  startedAt: number
  /** when a page of it was visible for the last time, to the heartbeat */
  seenAt: number
  /** of the page on which it began, until the service has answered a start with them */
  initial?: object | undefined
}

/** What is used of the Navigation API, which older browsers do not have. */
interface Navigation {
  addEventListener(
    type: 'navigate',
    listener: (event: { destination: { sameDocument: boolean }; downloadRequest: string | null }) => void,
  ): void
}

const HEARTBEAT_MS = 15_000
const TIMEOUT_MS = 30 * 60_000
const CALL_TIMEOUT_MS = 10_000
/** A page that goes so long after a navigation began goes because of it. */
const NAVIGATION_MS = 30_000
const STORED_AS = 'tallyhouse'
/** With these the service says that the session is over, or not this visitor's. */
const NEEDS_NEW_SESSION = 409
/** It never heard of the session: the start was lost. */
const NEEDS_START = 404
/** Mistakes in the page's set-up, which trying again does not mend. */
const HOPELESS = [400, 401, 403, 413, 415]

/**
 * The session of one visitor in one tab. It begins when the page is first visible, and sends a heartbeat while it is.
 *
 * - **Out of sight**, the last heartbeat is a beacon. Back in sight within `timeoutMs` the session goes on; after that it
 *   is ended, and a new one begins when the page is seen again.
 * - **The next page** of the tab goes on with the session, by `sessionStorage`: after a link, a form, a script's reload,
 *   and by back and forward. A page that goes because of a navigation, or into the back/forward cache, ends nothing.
 * - **A page that goes in another way** ends the session by a beacon: the tab was closed. The browser's own reload button
 *   cannot be told from that, so after it a new session begins. With `endOnClose: false` it goes on, and a closed tab
 *   leaves its session as the next point says. So does a browser without the Navigation API, which cannot tell at all.
 * - **A session whose end nobody saw** (a crash, a phone that ends the browser, a link to another site) stays `active`,
 *   with the right `duration` and `updated_at`. Take it for over when `updated_at` is `timeoutMs` ago.
 * - **A session that the service knows as ended** is followed by a new one; so it is with one of two tabs that share a
 *   session, after a tab was duplicated and the other one was closed.
 *
 * `duration` is the time in seconds from the first to the last moment of being visible.
 */
export class TallyhouseSession {
  readonly #options: SessionOptions
  #visit: Visit | null = null
  /** whether the service has answered a start of the visit to this page */
  #isStarted = false
  /** one at a time, so that an end does not overtake a start */
  #beating: Promise<void> | null = null
  /** ended by `end`, or given up */
  #isOver = false
  #navigatedAt = Number.NEGATIVE_INFINITY
  #heartbeat: number | undefined
  #timeout: number | undefined

  /** @throws TypeError where an option cannot be used */
  constructor(options: SessionOptions) {
    const { url, publicKey, distinct_id } = options
    if (!/^https?:/.test(url)) throw new TypeError('url must be the address of the service')
    if (/^sk_/.test(publicKey)) {
      throw new TypeError('This is a secret key, which must never be in a browser. Revoke it, and use the public key.')
    }
    if (!publicKey) throw new TypeError('publicKey must be the public key of the project')
    if (!distinct_id) throw new TypeError('distinct_id must say who is here')
    this.#options = { ...options, url: url.replace(/\/+$/, '') }
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#hide() : this.#show()))
    addEventListener('pageshow', () => this.#show())
    addEventListener('pagehide', ({ persisted }) => this.#leave(persisted))
    const { navigation } = window as { navigation?: Navigation }
    navigation?.addEventListener('navigate', ({ destination, downloadRequest }) => {
      if (!destination.sameDocument && downloadRequest === null) this.#navigatedAt = Date.now()
    })
    this.#show()
  }

  /** The session's id, or null while there is none: before the page was visible, and after the end. */
  get id(): string | null {
    return this.#visit?.id ?? null
  }

  /** Sets properties of the session, beside those that it has. */
  setProperties(properties: object): void {
    this.#options.properties = { ...this.#options.properties, ...properties }
    this.#beat()
  }

  /** Ends the session, for instance when the visitor signs out. This object begins no other. */
  async end(): Promise<void> {
    this.#isOver = true
    this.#rest()
    await this.#beating
    this.#report(await this.#finish())
  }

  #show(): void {
    if (document.hidden || this.#isOver || this.#heartbeat !== undefined) return
    this.#rest()
    // A page that comes out of the back/forward cache takes over from the page that was there meanwhile.
    const stored = this.#restore()
    if (stored && stored.id !== this.#visit?.id) this.#isStarted = false
    this.#visit = stored ?? this.#visit
    this.#heartbeat = setInterval(() => this.#beat(), this.#options.heartbeatMs ?? HEARTBEAT_MS)
    this.#beat()
  }

  #hide(): void {
    if (this.#heartbeat === undefined) return
    this.#rest()
    this.#see()
    this.#beacon(this.#isStarted ? 'update' : 'start')
    this.#timeout = setTimeout(() => this.#finish(), this.#options.timeoutMs ?? TIMEOUT_MS)
  }

  #leave(mayComeBack: boolean): void {
    this.#hide()
    const isNavigation = !('navigation' in window) || Date.now() - this.#navigatedAt < NAVIGATION_MS
    if (mayComeBack || isNavigation || this.#options.endOnClose === false) return
    this.#beacon('end')
    this.#forget()
  }

  #rest(): void {
    clearInterval(this.#heartbeat)
    clearTimeout(this.#timeout)
    this.#heartbeat = undefined
  }

  /** Says that the visitor is here, unless it is being said. */
  #beat(): void {
    if (this.#heartbeat === undefined) return
    this.#beating ??= this.#sayHere().finally(() => {
      this.#beating = null
    })
  }

  async #sayHere(): Promise<void> {
    if (this.#visit && Date.now() - this.#visit.seenAt > (this.#options.timeoutMs ?? TIMEOUT_MS)) void this.#finish()
    this.#see()
    const name = this.#isStarted ? 'update' : 'start'
    let failure = await this.#call(name)
    const isEnded = failure?.status === NEEDS_NEW_SESSION
    if (isEnded) this.#forget()
    const isStartMissing = isEnded || (failure?.status === NEEDS_START && name === 'update')
    if (isStartMissing && this.#heartbeat !== undefined) {
      this.#see()
      failure = await this.#call('start')
    }
    this.#report(failure)
    if (failure && HOPELESS.includes(failure.status)) {
      this.#isOver = true
      this.#rest()
    }
  }

  #report(failure: Failure | null): void {
    if (failure) this.#options.onError?.({ code: failure.code, message: failure.message })
  }

  /** Ends the visit, if there is one. */
  async #finish(): Promise<Failure | null> {
    const ended = this.#visit && this.#call('end')
    this.#forget()
    return await ended
  }

  /** Notes that the page is visible now. */
  #see(): void {
    const now = Date.now()
    this.#visit ??= { id: newId(), startedAt: now, seenAt: now, initial: this.#options.initialProperties }
    this.#visit.seenAt = now
    this.#keep()
  }

  /** Hands the visit to the next page. */
  #keep(): void {
    this.#store(JSON.stringify({ ...this.#visit, of: this.#owner() }))
  }

  #forget(): void {
    this.#visit = null
    this.#isStarted = false
    this.#store('')
  }

  /** @returns null for a success */
  async #call(name: CallName): Promise<Failure | null> {
    const visit = this.#visit
    let status = 0
    try {
      // As text/plain it needs no preflight.
      const answer = await fetch(this.#urlOf(name), {
        method: 'POST',
        body: this.#body(),
        keepalive: true,
        credentials: 'omit',
        signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
      })
      status = answer.status
      if (answer.ok) {
        if (visit && visit === this.#visit) {
          this.#isStarted = true
          if (visit.initial) {
            delete visit.initial
            this.#keep()
          }
        }
        return null
      }
      const { code, error } = await answer.json()
      return { status, code, message: error }
    } catch {
      return { status, code: 'network', message: 'The service did not answer, or something else did.' }
    }
  }

  #beacon(name: CallName): void {
    if (this.#visit) navigator.sendBeacon(this.#urlOf(name), this.#body())
  }

  #urlOf(name: CallName): string {
    return `${this.#options.url}/public/sessions/${name}`
  }

  #body(): string {
    const { publicKey, distinct_id, properties } = this.#options
    const { id, startedAt, seenAt, initial } = this.#visit ?? { id: '', startedAt: 0, seenAt: 0 }
    const duration = Math.max(0, seenAt - startedAt) / 1000
    return JSON.stringify({
      apiKey: publicKey,
      distinct_id,
      session_id: id,
      properties: { ...initial, ...properties },
      duration,
    })
  }

  /** Whose the stored visit is; another visitor's is not gone on with. */
  #owner(): string {
    const { url, publicKey, distinct_id } = this.#options
    return `${url} ${publicKey} ${distinct_id}`
  }

  #restore(): Visit | null {
    try {
      const { of, ...visit } = JSON.parse(sessionStorage.getItem(STORED_AS) ?? '') as Visit & { of: string }
      return of === this.#owner() ? visit : null
    } catch {
      // Nothing is stored, or the page may not store anything: then each page is a session.
      return null
    }
  }

  #store(text: string): void {
    try {
      sessionStorage.setItem(STORED_AS, text)
    } catch {
      // As in #restore.
    }
  }
}

function newId(): string {
  // randomUUID is only there on secure pages.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
