export interface SessionOptions {
  /** address of the service, such as `https://tallyhouse.example.com` */
  url: string
  /** the project's public key; a secret key is refused, because every visitor could read it */
  publicKey: string
  /** the visitor: 1 to 255 characters */
  distinct_id: string
  /** properties that only the first page of the session sends, such as the referrer; later pages' are ignored */
  initialProperties?: object
  /** properties of the session; each page may add some, and overwrites those of the same name */
  properties?: object
  /** interval of the heartbeat while the page is visible, in milliseconds; default 15 000 */
  heartbeatMs?: number
  /**
   * a page that is hidden for longer than this, in milliseconds, ends the session; default 30
   * minutes
   */
  timeoutMs?: number
  /**
   * whether a page that unloads without a navigation ends the session, because the tab was probably closed; default
   * true
   */
  endOnClose?: boolean
  /** called for each call that failed; the next heartbeat retries unless the failure is permanent */
  onError?: (failure: CallFailure) => void
}

export interface CallFailure {
  /** a code of the service, or `network` if no response came */
  code: string
  /** a sentence for a developer */
  message: string
}

interface Failure extends CallFailure {
  /** the HTTP status, or 0 if no response came */
  status: number
}

type CallName = 'start' | 'update' | 'end'

/** The state that the pages of a tab pass on. Times are epoch milliseconds. */
interface Visit {
  id: string
  startedAt: number
  /** when one of its pages was last visible, with the precision of a heartbeat */
  seenAt: number
  /**
   * initial properties of the page on which it began, until the service has acknowledged a start
   * with them
   */
  initial?: object | undefined
}

/** The part of the Navigation API that is used. Older browsers do not have it. */
interface Navigation {
  addEventListener(
    type: 'navigate',
    listener: (event: { destination: { sameDocument: boolean }; downloadRequest: string | null }) => void,
  ): void
}

const HEARTBEAT_MS = 15_000
const TIMEOUT_MS = 30 * 60_000
const CALL_TIMEOUT_MS = 10_000
/** In characters. Browsers allow 64 KiB of keepalive bodies in flight; a character takes up to 3 bytes, and two calls may overlap. */
const MAX_KEPT_ALIVE = 10_000
/** A page that unloads within this time after a navigation began unloads because of it. */
const NAVIGATION_MS = 30_000
const STORED_AS = 'tallyhouse'
/** The status for a session that has ended or belongs to another visitor. */
const NEEDS_NEW_SESSION = 409
/** The status for an unknown session: its start was lost. */
const NEEDS_START = 404
/** Statuses for mistakes in the page's set-up, which a retry does not fix. */
const PERMANENT = [400, 401, 403, 413, 415]

/**
 * The session of one visitor in one tab. It starts when the page is first visible, and sends heartbeats while it is.
 *
 * - **A hidden page** sends its last heartbeat as a beacon. If it is visible again within `timeoutMs`, the session
 *   continues; otherwise the session ends, and a new one starts once the page is visible again.
 * - **The next page** of the tab continues the session through `sessionStorage`: after a link, a form, a reload by a
 *   script, or back and forward. A page that unloads for a navigation, or into the back/forward cache, does not end
 *   it.
 * - **A page that unloads without a navigation** ends the session with a beacon, because the tab was closed. The
 *   browser's reload button looks the same, so a new session starts after it. With `endOnClose: false` the session
 *   continues after a reload, and a closed tab leaves its session to the next point. Browsers without the Navigation
 *   API behave the same way.
 * - **A session whose end was not observed** (a crash, a phone that kills the browser, a link to another site) stays
 *   `active`, with the right `duration` and `updated_at`. Consider it ended once `updated_at` is more than
 *   `timeoutMs` ago.
 * - **A session that has ended on the service** is followed by a new one. This also happens if a tab is duplicated,
 *   so that two tabs share a session, and one of them is closed.
 *
 * `duration` is the time in seconds from the first to the last moment at which the page was visible.
 */
export class TallyhouseSession {
  readonly #options: SessionOptions
  #visit: Visit | null = null
  /** whether the service has acknowledged this page's start of the visit */
  #isStarted = false
  /** the heartbeat in flight; only one at a time, so that an end cannot overtake a start */
  #beating: Promise<void> | null = null
  /** whether there are properties that the service may lack and that the call in flight, if any, does not send */
  #hasNews = true
  /** ended by `end`, or by a permanent failure */
  #isOver = false
  #navigatedAt = Number.NEGATIVE_INFINITY
  #heartbeat: number | undefined
  #timeout: number | undefined

  /** @throws TypeError if an option cannot be used */
  constructor(options: SessionOptions) {
    const { url, publicKey, distinct_id } = options
    if (!/^https?:/.test(url)) throw new TypeError('url must be the address of the service')
    if (/^sk_/.test(publicKey)) {
      throw new TypeError('This is a secret key, which must never be in a browser. Revoke it, and use the public key.')
    }
    if (!publicKey) throw new TypeError('publicKey must be the public key of the project')
    if (!distinct_id) throw new TypeError('distinct_id must name the visitor')
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

  /** The session's id, or null before the page is first visible and after the end. */
  get id(): string | null {
    return this.#visit?.id ?? null
  }

  /** Adds properties to the session, and overwrites those of the same name. */
  setProperties(properties: object): void {
    this.#options.properties = { ...this.#options.properties, ...properties }
    this.#hasNews = true
    // A hidden page may be closed without another heartbeat.
    if (this.#heartbeat === undefined && !this.#isOver) this.#beaconState()
    this.#beat()
  }

  /** Ends the session, for example when the visitor signs out. This object does not start another one. */
  async end(): Promise<void> {
    this.#isOver = true
    this.#stopTimers()
    await this.#beating
    // The end call cannot send properties.
    if (this.#visit && this.#hasNews) await this.#call(this.#isStarted ? 'update' : 'start')
    this.#report(await this.#finish())
  }

  #show(): void {
    if (document.hidden || this.#isOver || this.#heartbeat !== undefined) return
    this.#stopTimers()
    // A page that returns from the back/forward cache continues the session of the page that
    // replaced it.
    const stored = this.#restore()
    if (stored && stored.id !== this.#visit?.id) this.#isStarted = false
    this.#visit = stored ?? this.#visit
    this.#heartbeat = setInterval(() => this.#beat(), timerMs(this.#options.heartbeatMs ?? HEARTBEAT_MS))
    this.#beat()
  }

  #hide(): void {
    if (this.#heartbeat === undefined) return
    this.#stopTimers()
    this.#markSeen()
    this.#beaconState()
    this.#timeout = setTimeout(() => this.#finish(), timerMs(this.#options.timeoutMs ?? TIMEOUT_MS))
  }

  #leave(mayComeBack: boolean): void {
    this.#hide()
    const isNavigation = !('navigation' in window) || Date.now() - this.#navigatedAt < NAVIGATION_MS
    if (mayComeBack || isNavigation || this.#options.endOnClose === false) return
    this.#beacon('end')
    this.#forget()
  }

  #stopTimers(): void {
    clearInterval(this.#heartbeat)
    clearTimeout(this.#timeout)
    this.#heartbeat = undefined
  }

  /** Sends a heartbeat. If one is in flight and properties were set since, another follows. */
  #beat(): void {
    if (this.#heartbeat === undefined) return
    this.#beating ??= this.#sendHeartbeats().finally(() => {
      this.#beating = null
    })
  }

  async #sendHeartbeats(): Promise<void> {
    let isSent: boolean
    do {
      this.#hasNews = false
      isSent = await this.#sendHeartbeat()
    } while (isSent && this.#hasNews && this.#heartbeat !== undefined)
    // If the call failed, the next heartbeat sends them.
    if (!isSent) this.#hasNews = true
  }

  /** @returns whether the service has acknowledged it */
  async #sendHeartbeat(): Promise<boolean> {
    if (this.#visit && Date.now() - this.#visit.seenAt > (this.#options.timeoutMs ?? TIMEOUT_MS)) void this.#finish()
    this.#markSeen()
    const name = this.#isStarted ? 'update' : 'start'
    let failure = await this.#call(name)
    const isEnded = failure?.status === NEEDS_NEW_SESSION
    if (isEnded) this.#forget()
    const isStartMissing = isEnded || (failure?.status === NEEDS_START && name === 'update')
    if (isStartMissing && this.#heartbeat !== undefined) {
      this.#markSeen()
      failure = await this.#call('start')
    }
    this.#report(failure)
    if (failure && PERMANENT.includes(failure.status)) {
      this.#isOver = true
      this.#stopTimers()
    }
    return failure === null
  }

  #report(failure: Failure | null): void {
    if (!failure) return
    const { code, message } = failure
    // An error in the callback must not interrupt the session.
    queueMicrotask(() => this.#options.onError?.({ code, message }))
  }

  /** Ends the visit, if any. */
  async #finish(): Promise<Failure | null> {
    const ended = this.#visit && this.#call('end')
    this.#forget()
    return await ended
  }

  /** Notes that the page is visible now. */
  #markSeen(): void {
    const now = Date.now()
    this.#visit ??= { id: newId(), startedAt: now, seenAt: now, initial: this.#options.initialProperties }
    this.#visit.seenAt = now
    this.#save()
  }

  /** Saves the visit for the next page. */
  #save(): void {
    this.#store(JSON.stringify({ ...this.#visit, of: this.#owner() }))
  }

  #forget(): void {
    this.#visit = null
    this.#isStarted = false
    this.#store('')
  }

  /** @returns null on success */
  async #call(name: CallName): Promise<Failure | null> {
    const visit = this.#visit
    let status = 0
    try {
      const body = this.#body()
      // A text/plain request needs no preflight.
      const response = await fetch(this.#toUrl(name), {
        method: 'POST',
        body,
        keepalive: body.length <= MAX_KEPT_ALIVE,
        credentials: 'omit',
        signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
      })
      status = response.status
      if (response.ok) {
        if (visit && visit === this.#visit) {
          this.#isStarted = true
          if (visit.initial) {
            delete visit.initial
            this.#save()
          }
        }
        return null
      }
      const { code, error } = await response.json()
      return { status, code, message: error }
    } catch {
      return { status, code: 'network', message: 'The service did not respond, or the response was not its own.' }
    }
  }

  /** Sends the same as a heartbeat, by a beacon, which outlives the page. */
  #beaconState(): void {
    this.#beacon(this.#isStarted ? 'update' : 'start')
  }

  #beacon(name: CallName): void {
    if (this.#visit) navigator.sendBeacon(this.#toUrl(name), this.#body())
  }

  #toUrl(name: CallName): string {
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

  /** Identifies the stored visit's owner, so that another visitor does not continue it. */
  #owner(): string {
    const { url, publicKey, distinct_id } = this.#options
    return `${url} ${publicKey} ${distinct_id}`
  }

  #restore(): Visit | null {
    try {
      const { of, ...visit } = JSON.parse(sessionStorage.getItem(STORED_AS) ?? '') as Visit & { of: string }
      return of === this.#owner() ? visit : null
    } catch {
      // Nothing is stored, or the page may not use storage. Then each page has its own session.
      return null
    }
  }

  #store(text: string): void {
    try {
      sessionStorage.setItem(STORED_AS, text)
    } catch {
      // The page may not use storage, as in #restore.
    }
  }
}

/** Caps a delay at what timers support: a longer one, such as `Infinity`, would fire immediately. */
function timerMs(ms: number): number {
  return Math.min(ms, 2 ** 31 - 1)
}

function newId(): string {
  // randomUUID exists only on secure pages.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
