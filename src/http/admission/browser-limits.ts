import { isIP, isIPv4 } from 'node:net'
import { normalizeIP } from '@fastify/rate-limit'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { HOUR_MS } from '../../contract/durations.js'
import { type LimitName, rateLimited } from '../../contract/errors.js'
import { isBrowserKey, type StoredKey } from '../../keys/keys.js'
import { oncePerMinute } from '../../lib/once-per-minute.js'
import { RecentValues } from '../../lib/recent-values.js'
import { TokenBuckets } from '../../lib/token-buckets.js'
import { SMALL_BODY } from './body-budget.js'
import { KnownNames } from './known-names.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** bytes of the body received so far, as sent */
    sentBytes: number
    /** the cost of the request, if it has a browser key, or may have one and is costly; null otherwise */
    toll: Toll | null
  }
}

/** Settings of the service, by their names; 0 for no limit. */
export interface BrowserLimitSettings {
  /** requests per minute */
  ADDRESS_LIMIT: number
  /** bytes per second */
  WORK_ADDRESS_LIMIT: number
  /** bytes per second */
  WORK_KEY_LIMIT: number
  /** profiles and aliases per hour */
  NEW_USERS_LIMIT: number
  /** names in events and sessions per hour */
  NEW_VISITORS_LIMIT: number
}

const SECOND_MS = 1_000
const MINUTE_MS = 60_000
/** The capacity of a bucket, in seconds of its rate. */
const WORK_BURST_S = 8
/**
 * Bytes of work beyond its own size that are free for each request, because bodies of this size are not counted either.
 * So the normal traffic of pages, and normal profiles, cost nothing.
 */
const FREE_BYTES = SMALL_BODY

/** How many IPv6 addresses have a remembered network. */
const MAX_NETWORKS = 5_000

/** One limit: a bucket for each address or key. */
export class Limit {
  readonly #max: number
  readonly #buckets: TokenBuckets
  readonly #refusal: { limit: LimitName; reason: string }
  readonly #warn: (name: string, now: number) => void

  constructor(max: number, { inMs, burst = max, refusal, of, warning, log }: LimitOptions) {
    this.#max = max
    this.#buckets = new TokenBuckets({ tokens: max, inMs }, burst)
    this.#refusal = refusal
    this.#warn = oncePerMinute((name, now) => {
      // Log lines must not name addresses, so this line counts them.
      const whose = of === 'key' ? { key: name } : { addresses: this.#buckets.countEmpty(now) }
      log.warn({ limit: refusal.limit, ...whose }, warning)
    })
  }

  /** Spends one token. @throws ApiError `rate_limited` if none is left */
  count(name: string, now: number): void {
    this.check(name, now)
    this.spend(name, 1, now)
  }

  /** @throws ApiError `rate_limited` while nothing is left */
  check(name: string, now: number): void {
    const wait = this.#max === 0 ? 0 : this.#buckets.wait(name, now)
    if (wait > 0) throw this.#refuse(name, wait, now)
  }

  /**
   * @param spender may go into debt to finish work that it began while tokens were left
   * @throws ApiError `rate_limited` if another spender is in debt; the tokens are spent anyway
   */
  spend(name: string, amount: number, now: number, spender?: number): void {
    if (this.#max === 0) return
    const mayGoOn = this.#buckets.spend(name, amount, now, spender)
    if (!mayGoOn) throw this.#refuse(name, this.#buckets.wait(name, now), now)
  }

  refund(name: string, amount: number, now: number, spender: number): void {
    if (this.#max > 0) this.#buckets.spend(name, -amount, now, spender)
  }

  #refuse(name: string, wait: number, now: number): Error {
    this.#warn(name, now)
    const { limit, reason } = this.#refusal
    return rateLimited(limit, reason, wait, this.#max)
  }
}

interface LimitOptions {
  /** time in which a bucket gains `max` tokens */
  inMs: number
  /** how many tokens a full bucket holds; default: `max` */
  burst?: number
  refusal: { limit: LimitName; reason: string }
  /** what each bucket belongs to: a client's address, or the id of a key */
  of: 'address' | 'key'
  /** for the log */
  warning: string
  log: FastifyBaseLogger
}

const BROWSER_KEYS = 'calls with browser keys are refused'

/**
 * Limits the wrong keys that an address may send. Only requests with a wrong key are refused, so that someone guessing
 * keys cannot lock out others who share the address.
 * @param max wrong keys per minute; 0 for no limit
 */
export function limitWrongKeys(max: number, log: FastifyBaseLogger): Limit {
  const refusal = { limit: 'wrong_keys', reason: 'This address has sent too many wrong keys.' } as const
  return new Limit(max, { inMs: MINUTE_MS, refusal, of: 'address', warning: 'many wrong keys are being sent', log })
}

/**
 * Limits the cost of calls with a browser key, by address and by key, in this process. Anyone can take such a key from
 * a page, and a small request can make the service inflate megabytes, or rewrite a profile of a megabyte.
 */
export class BrowserLimits {
  readonly #requests: Limit
  readonly #workOfAddress: Limit
  readonly #workOfKey: Limit
  readonly #newUsers: Limit
  readonly #newVisitors: Limit
  /** null if new ones are not limited */
  readonly #knownNames: KnownNames | null
  readonly #now: () => number

  constructor(settings: BrowserLimitSettings, log: FastifyBaseLogger, now: () => number = Date.now) {
    const { ADDRESS_LIMIT, WORK_ADDRESS_LIMIT, WORK_KEY_LIMIT, NEW_USERS_LIMIT, NEW_VISITORS_LIMIT } = settings
    const ofAddress = (max: number, limit: LimitName, inMs: number, reason: string) => {
      return new Limit(max, { inMs, refusal: { limit, reason }, of: 'address', warning: BROWSER_KEYS, log })
    }
    const work = (max: number, of: 'address' | 'key') => {
      const reason = `This ${of} may cause ${max} bytes of work a second beyond what it sends. Compressed bodies and changes of large profiles and sessions cause such work.`
      const refusal = { limit: 'work', reason } as const
      return new Limit(max, { inMs: SECOND_MS, burst: WORK_BURST_S * max, refusal, of, warning: BROWSER_KEYS, log })
    }
    this.#now = now
    const requests = `This address may make ${ADDRESS_LIMIT} requests a minute with public and write keys.`
    this.#requests = ofAddress(ADDRESS_LIMIT, 'requests', MINUTE_MS, requests)
    this.#workOfAddress = work(WORK_ADDRESS_LIMIT, 'address')
    this.#workOfKey = work(WORK_KEY_LIMIT, 'key')
    const users = `This address may create ${NEW_USERS_LIMIT} users and aliases an hour with write keys.`
    this.#newUsers = ofAddress(NEW_USERS_LIMIT, 'new_users', HOUR_MS, users)
    const visitors = `This address may send ${NEW_VISITORS_LIMIT} new values of distinct_id an hour with public and write keys.`
    this.#newVisitors = ofAddress(NEW_VISITORS_LIMIT, 'new_users', HOUR_MS, visitors)
    this.#knownNames = NEW_VISITORS_LIMIT > 0 ? new KnownNames() : null
  }

  /**
   * Counts a request whose key is verified.
   * @throws ApiError `rate_limited`
   */
  admit(request: FastifyRequest, { kind, id }: StoredKey): void {
    if (!isBrowserKey(kind)) {
      const { toll } = request
      if (!toll) return
      toll.cancel()
      request.toll = null
      return
    }
    const now = this.#now()
    request.toll ??= this.open(request)
    this.#requests.count(request.toll.address, now)
    this.#workOfKey.check(id, now)
    request.toll.bill(id)
  }

  /**
   * Begins to count the cost of a request whose key is verified, or not known yet.
   * @throws ApiError `rate_limited` if its address has nothing left
   */
  open(request: FastifyRequest): Toll {
    const address = limitedAddress(request)
    this.#workOfAddress.check(address, this.#now())
    return new Toll(this, request, address)
  }

  /**
   * Charges the address and then the key: a request that is refused for its address must not use up the share of all
   * visitors of a page.
   * @param key its id; null if it is not known yet
   * @throws ApiError `rate_limited`
   */
  spendWork({ address, id }: Toll, key: string | null, bytes: number): void {
    const now = this.#now()
    this.#workOfAddress.spend(address, bytes, now, id)
    if (key !== null) this.#workOfKey.spend(key, bytes, now, id)
  }

  /** Charges a key for the cost of its request before the key was known. @throws ApiError `rate_limited` */
  spendKey({ id }: Toll, key: string, bytes: number): void {
    this.#workOfKey.spend(key, bytes, this.#now(), id)
  }

  /** Refunds a charge to an address. */
  refund({ address, id }: Toll, bytes: number): void {
    this.#workOfAddress.refund(address, bytes, this.#now(), id)
  }

  /** @throws ApiError `rate_limited` */
  spendNewUser(address: string): void {
    this.#newUsers.count(address, this.#now())
  }

  /**
   * Charges an address for the names that are new to this process. A request may run into debt.
   * @throws ApiError `rate_limited`
   */
  spendVisitors(address: string, projectId: string, names: readonly string[]): void {
    const found = this.#knownNames?.findNew(projectId, names) ?? []
    if (found.length === 0) return
    const now = this.#now()
    this.#newVisitors.check(address, now)
    this.#newVisitors.spend(address, found.length, now)
    this.#knownNames?.add(found)
  }
}

let tolls = 0

/** Counts the bytes that one request makes the service handle. */
export class Toll {
  /** unique in this process */
  readonly id = ++tolls
  /** the client's address for the limits */
  readonly address: string
  readonly #limits: BrowserLimits
  readonly #request: FastifyRequest
  #key: string | null = null
  #touched = 0
  #charged = 0

  constructor(limits: BrowserLimits, request: FastifyRequest, address: string) {
    this.#limits = limits
    this.#request = request
    this.address = address
  }

  /**
   * Charges the request for bytes that the service handles for it beyond those that it sent.
   * @throws ApiError `rate_limited` if the work must stop
   */
  touch(bytes: number): void {
    this.#touched += bytes
    const due = this.#touched - this.#request.sentBytes - FREE_BYTES - this.#charged
    if (due <= 0) return
    this.#charged += due
    this.#limits.spendWork(this, this.#key, due)
  }

  /** Counts a profile or an alias that the request makes. @throws ApiError `rate_limited` */
  newUser(): void {
    this.#limits.spendNewUser(this.address)
  }

  /** Counts those of its names that no earlier event or session had. @throws ApiError `rate_limited` */
  countVisitors(projectId: string, names: readonly string[]): void {
    this.#limits.spendVisitors(this.address, projectId, names)
  }

  /** Charges the key, once it is known. @param key its id @throws ApiError `rate_limited` */
  bill(key: string): void {
    this.#key = key
    if (this.#charged > 0) this.#limits.spendKey(this, key, this.#charged)
  }

  /** Refunds the charges, because the key is not a browser key. */
  cancel(): void {
    if (this.#charged > 0) this.#limits.refund(this, this.#charged)
    this.#charged = 0
  }
}

/** The client's address as reported by trusted proxies; the socket's address if they report something else. */
export function clientAddress({ ip, socket }: FastifyRequest): string {
  const peer = socket.remoteAddress ?? ''
  if (ip === peer || isIP(ip) === 0) return peer
  // Make a copy: a slice would keep the whole header in memory for as long as a limit remembers the address.
  return Buffer.from(ip).toString()
}

/** Cache of IPv6 addresses' networks, because computing one takes as long as the rest of a small call. */
const networks = new RecentValues<string>(MAX_NETWORKS)

/** The address that the limits of a client count for: all addresses of an IPv6 network are one. */
export function limitedAddress(request: FastifyRequest): string {
  const address = clientAddress(request)
  if (isIPv4(address)) return address
  const known = networks.get(address)
  if (known !== undefined) return known
  const network = normalizeIP(address)
  networks.set(address, network)
  return network
}
