import { type ClickOptions, watchClicks } from './clicks.js'
import { Outbox } from './outbox.js'
import { newId, SiteStorage } from './site-storage.js'

export interface TallyhouseOptions extends ClickOptions {
  /** address of the service, such as `https://tallyhouse.example.com` */
  url: string
  /** a write key of the project; anyone who opens the page can read it */
  key: string
  /** `daily`: nothing is stored in the browser, and the service counts a visitor once a day */
  visitor?: 'daily' | undefined
  /** `required`: nothing is stored or sent until `optIn` is called */
  consent?: 'required' | undefined
  /** whether Global Privacy Control counts as an objection; default true */
  respectGpc?: boolean | undefined
  /** whether URLs that differ only after `#` are different pages; default false */
  hash?: boolean | undefined
}

const HEARTBEAT_MS = 15_000
/** A visit ends when no page of the site was visible for this long. */
const AWAY_MS = 30 * 60_000
/** A route that leads to another one within this time is not a page view. Meanwhile, the page sets its title. */
const ROUTE_MS = 100
const MAX_WAITING = 100
const CAMPAIGN = /^utm_(source|medium|campaign|term|content)$/

/** Times are epoch milliseconds. */
interface Visit {
  /** the visitor's name when it began */
  distinct_id: string
  session_id: string
  startedAt: number
  /** when a page was last visible, with the precision of a heartbeat */
  seenAt: number
}

/**
 * Records the page views, visits and events of a page.
 *
 * - **A page view** is recorded when the page is first visible, when its path changes, when it returns from the
 *   back/forward cache, and when a visit begins on it.
 * - **A visit** is shared by the tabs of a site. Visible pages send heartbeats. If no page was visible for 30 minutes,
 * a new visit begins.
 * - **Events** are in `localStorage` until the service has them.
 */
export class Tallyhouse {
  readonly #options: TallyhouseOptions
  /** the visitor's choice */
  readonly #choices = new SiteStorage(true)
  readonly #storage: SiteStorage
  readonly #outbox: Outbox
  /** tasks to run once the page is visible and the visitor has agreed */
  readonly #waiting: (() => void)[] = []
  #isShown = false
  /** the visit and path of the last page view */
  #viewed = ''
  #referrer: string

  /** @throws TypeError without a write key */
  constructor(options: TallyhouseOptions) {
    const { url, key, visitor } = options
    if (!/^wk_/.test(key)) throw new TypeError('A page needs a write key: wk_...')
    this.#options = options
    this.#referrer = document.referrer
    this.#storage = new SiteStorage(!visitor)
    // A site that counts daily visitors now may have given visitors names before.
    if (visitor) this.#choices.clear()
    const timeZone = encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)
    const query = `?timezone=${timeZone}${visitor ? `&visitor=${visitor}` : ''}`
    this.#outbox = new Outbox({ url: url.replace(/\/+$/, ''), key, query, storage: this.#storage })
    watchClicks((event, properties) => this.track(event, properties), options)
    this.#watchPage()
    this.#show()
  }

  /** The visitor's name: the one passed to `identify`, or else a random one. Absent if events have none. */
  get distinctId(): string | undefined {
    return this.#findNames().distinct_id
  }

  /** The id of the visit, if there is one. */
  get sessionId(): string | undefined {
    return this.#findNames().session_id
  }

  /** Records an event. */
  track(event: string, properties?: object): void {
    this.#run(() => this.#record(event, properties))
  }

  /**
   * Identifies the visitor, for example after signing in. Earlier events of the visitor belong to that user, too. Daily
   * visitors stay unknown. Ignores an empty name, `0`, `undefined`, `null` and what
   * begins with `[`, such as `[object Object]`.
   */
  identify(id: string): void {
    this.#run(() => {
      // Pages also pass numbers.
      const user = `${id}`
      const known = this.#storage.read('user')
      // Pages without a user pass these. As a name, each would turn all visitors into one user.
      if (/^(0?|undefined|null)$|^\[/.test(user) || known === user || this.#options.visitor) return
      if (known) this.#forget()
      this.#outbox.add('user', { distinct_id: user, alias: this.#findVisitor() })
      this.#storage.write('user', user)
    })
  }

  /**
   * Forgets who the visitor is, for example after signing out. Later events belong to a new visitor and a new visit.
   */
  reset(): void {
    this.#run(() => this.#forget())
  }

  /** Stops recording on this site, and removes everything from the browser except this choice. */
  optOut(): void {
    this.#storage.clear()
    this.#waiting.splice(0)
    this.#choices.write('choice', 'out')
  }

  /** Records from now on, on later pages as well. */
  optIn(): void {
    this.#choices.write('choice', 'in')
    this.#show()
  }

  #isAllowed(): boolean {
    const { consent, respectGpc = true } = this.#options
    const { globalPrivacyControl } = navigator as { globalPrivacyControl?: boolean }
    const choice = this.#choices.read('choice')
    return choice ? choice === 'in' : !consent && !(respectGpc && globalPrivacyControl)
  }

  /** Runs a call of the page, now or later. Values that cannot be recorded, such as a circular object, are dropped. */
  #run(task: () => void): void {
    const attempt = () => {
      try {
        task()
      } catch (error) {
        console.warn('Tallyhouse:', error)
      }
    }
    if (this.#isAllowed() && (this.#isShown || this.#viewed)) {
      this.#viewPage()
      attempt()
    } else if (this.#choices.read('choice') !== 'out' && this.#waiting.length < MAX_WAITING) this.#waiting.push(attempt)
  }

  #watchPage(): void {
    addEventListener('visibilitychange', () => (document.hidden ? this.#hide() : this.#show()))
    addEventListener('pagehide', () => {
      this.#hide()
      // If the page comes back, it is viewed again. It becomes visible before `pageshow`.
      this.#viewed &&= ' '
    })
    addEventListener('pageshow', ({ persisted }) => {
      if (!persisted) return
      this.#outbox.forget()
      this.#show()
    })
    const route = () => setTimeout(() => this.#viewPage(), ROUTE_MS)
    addEventListener('popstate', route)
    // Routers that use this API do not call `pushState`. Not all browsers have it, and a page may use its name.
    ;(window as { navigation?: Partial<EventTarget> }).navigation?.addEventListener?.('currententrychange', route)
    for (const name of ['pushState', 'replaceState'] as const) {
      const change = history[name]
      history[name] = (...state) => {
        change.apply(history, state)
        route()
      }
    }
    addEventListener('online', () => this.#beat())
    setInterval(() => this.#beat(), HEARTBEAT_MS)
  }

  #show(): void {
    this.#isShown = !document.hidden
    this.#beat()
  }

  #hide(): void {
    this.#beat(true)
    this.#isShown = false
  }

  /** Notes that the page is visible, and sends due heartbeats and events. */
  #beat(isLeaving?: boolean): void {
    if (!this.#viewPage()) return
    void this.#outbox.send(isLeaving)
    void this.#sendHeartbeat()
  }

  async #sendHeartbeat(): Promise<void> {
    const visit = this.#findVisit()
    if (!visit || this.#options.visitor) return
    const { startedAt, seenAt, ...names } = visit
    const body = { ...names, duration: (seenAt - startedAt) / 1000 }
    const [status] = await this.#outbox.call('sessions/start', JSON.stringify(body))
    // The session was ended elsewhere.
    if (status === 409 && this.#findVisit()?.session_id === names.session_id) this.#storage.remove('visit')
  }

  /** Records a page view if there is one to record. @returns whether the page is visible and may record */
  #viewPage(): boolean {
    if (!this.#isShown || !this.#isAllowed()) return false
    const { pathname, search, href, hash } = location
    const { hash: hasHash } = this.#options
    const viewed = this.#findVisit()?.session_id + pathname + (hasHash ? hash : '')
    if (viewed === this.#viewed) return true
    this.#viewed = viewed
    const url = hasHash ? href : href.replace(/#.*/, '')
    const referrer = this.#referrer
    this.#referrer = url
    const properties: Record<string, string> = { url, title: document.title }
    if (referrer) properties.referrer = referrer
    for (const [name, value] of new URLSearchParams(search)) {
      // The first value counts.
      if (value && CAMPAIGN.test(name)) properties[name] ??= value
    }
    this.#record('$pageview', properties)
    for (const task of this.#waiting.splice(0)) task()
    return true
  }

  #record(event: string, properties?: object): void {
    this.#outbox.add('event', { event, ...this.#findNames(), insert_id: newId(), properties }, !this.#isShown)
  }

  /** The fields of an event that name the visitor and the visit. */
  #findNames(): { distinct_id?: string; session_id?: string | undefined } {
    if (this.#options.visitor || !this.#isAllowed()) return {}
    return { distinct_id: this.#findName(), session_id: this.#findVisit()?.session_id }
  }

  #findName(): string {
    return this.#storage.read('user') ?? this.#findVisitor()
  }

  /** The current visit; marks it as seen now if the page is visible. */
  #findVisit(): Visit | null {
    const now = Date.now()
    let visit: Visit | null = JSON.parse(this.#storage.read('visit') ?? 'null')
    if (visit && Math.abs(now - visit.seenAt) > AWAY_MS) visit = null
    if (!this.#isShown) return visit
    visit ??= { distinct_id: this.#findName(), session_id: newId(), startedAt: now, seenAt: now }
    visit.seenAt = now
    this.#storage.write('visit', JSON.stringify(visit))
    return visit
  }

  #findVisitor(): string {
    const visitor = this.#storage.read('visitor') ?? newId()
    this.#storage.write('visitor', visitor)
    return visitor
  }

  #forget(): void {
    void this.#sendHeartbeat()
    for (const name of ['visit', 'visitor', 'user']) this.#storage.remove(name)
  }
}
