import { createHmac, randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import { clientAddress } from '../http/admission/browser-limits.js'
import { isBrowserKey } from '../keys/keys.js'
import type { Log } from '../lib/log.js'
import { ScannedBody } from '../model/scanned-body.js'
import { DAILY_VISITOR_PREFIX, DAILY_VISITOR_REASON, isDailyVisitor } from '../model/user-names.js'
import { dropVisitorSalts, ensureVisitorSalts, type VisitorSalts } from '../store/visitor-salts.js'

const DAY_MS = 86_400_000
/** How often the salts are looked at; that of tomorrow is there a day before it is needed. */
const REFRESH_MS = 10 * 60_000
const SALT_BYTES = 32
/** Of the HMAC; two of a million visitors of a day have the same name with a probability of 10^-15. */
const NAME_BYTES = 12

export interface DailyVisitorsOptions {
  shards: Shards
  log: Pick<Log, 'warn'>
  /** aborts every wait */
  closing: AbortSignal
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/**
 * Names visitors of pages that store nothing in the browser: a visitor has the same name all day (UTC), made from the
 * address, the User-Agent and a random salt of the day that all processes share. Once the salt is destroyed, nobody can
 * tell whose name it was, and a visitor of two days is two users.
 */
export class DailyVisitors {
  readonly #options: DailyVisitorsOptions
  #salts: VisitorSalts = new Map()
  #isStarted = false

  constructor(options: DailyVisitorsOptions) {
    this.#options = options
  }

  /**
   * Keeps the salts of today and tomorrow from now on, and destroys those of the days before yesterday.
   * @throws StoreError, StoreUnreachableError at the first read
   */
  async start(): Promise<void> {
    await this.#refresh()
    if (this.#isStarted) return
    this.#isStarted = true
    void this.#repeat()
  }

  /** @throws ApiError `unavailable` while there is no salt of today, because ClickHouse has not been reachable */
  name(request: FastifyRequest): string {
    const salt = this.#salts.get(toDay(this.#now()))
    if (salt === undefined) {
      throw new ApiError('unavailable', 'Visitors of today cannot be told apart yet. Try again in a moment.')
    }
    const parts = [request.projectId, clientAddress(request), request.headers['user-agent'] ?? '']
    const digest = createHmac('sha256', salt).update(JSON.stringify(parts)).digest()
    return DAILY_VISITOR_PREFIX + digest.toString('base64url', 0, NAME_BYTES)
  }

  async #repeat(): Promise<void> {
    const { closing, log } = this.#options
    for (;;) {
      await wait(REFRESH_MS, undefined, { signal: closing, ref: false }).catch(() => undefined)
      if (closing.aborted) return
      await this.#refresh().catch((error: unknown) => {
        log.warn({ err: error }, 'the salts of daily visitors could not be read; they are read again in ten minutes')
      })
    }
  }

  async #refresh(): Promise<void> {
    const { shards } = this.#options
    const now = this.#now()
    const days = [toDay(now), toDay(now + DAY_MS)]
    this.#salts = await ensureVisitorSalts(shards, days, () => randomBytes(SALT_BYTES).toString('base64url'))
    await dropVisitorSalts(shards, toDay(now - DAY_MS))
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }
}

function toDay(at: number): string {
  return new Date(at).toISOString().slice(0, 10)
}

/** A body after validation: an event, a batch, or a call of a session. */
interface Named {
  distinct_id?: unknown
  events?: unknown
}

/**
 * Names the visitor of each request with `visitor=daily` in a scope, before its body is validated. Other requests with a
 * browser key may not use such names, or a page could speak for another visitor.
 */
export function acceptDailyVisitors(scope: FastifyInstance, visitors: DailyVisitors): void {
  scope.addHook('preValidation', async (request) => {
    const { access, changesUsers } = request.routeOptions.config
    if (access !== 'send' && access !== 'session') return
    const { visitor } = request.query as { visitor?: unknown }
    if (visitor !== undefined && changesUsers) {
      throw new ApiError(
        'invalid_request',
        'visitor=daily is for events and sessions: a visitor of a day has no profile.',
      )
    }
    if (visitor !== undefined) nameVisitor(request, visitor, visitors)
    else if (request.keyKind !== null && isBrowserKey(request.keyKind)) refuseVisitors(request)
  })
}

function nameVisitor(request: FastifyRequest, visitor: unknown, visitors: DailyVisitors): void {
  if (visitor !== 'daily') throw new ApiError('invalid_request', 'visitor must be daily, or absent.')
  if (request.keyKind === null || !isBrowserKey(request.keyKind)) {
    throw new ApiError(
      'wrong_key_kind',
      'visitor=daily needs a write or public key: with another key, send a distinct_id.',
    )
  }
  const named = listNamed(request.body)
  if (named === null || named.some(({ distinct_id }) => distinct_id !== undefined)) {
    throw new ApiError('invalid_request', 'With visitor=daily, leave out distinct_id: the service makes one.')
  }
  const name = visitors.name(request)
  for (const one of named) one.distinct_id = name
}

function refuseVisitors({ body, rawBody }: FastifyRequest): void {
  if (body instanceof ScannedBody && !body.mayNameVisitor) return
  const named = listNamed(body instanceof ScannedBody ? JSON.parse(rawBody.toString()) : body) ?? []
  if (named.some(({ distinct_id }) => typeof distinct_id === 'string' && isDailyVisitor(distinct_id))) {
    throw new ApiError('invalid_request', DAILY_VISITOR_REASON)
  }
}

/** What has a `distinct_id` in a parsed body; null for a body that was scanned, whose events all have one. */
function listNamed(body: unknown): Named[] | null {
  if (body instanceof ScannedBody) return null
  if (typeof body !== 'object' || body === null) return []
  const { events } = body as Named
  return Array.isArray(events) ? events.filter((one) => typeof one === 'object' && one !== null) : [body]
}
