import type { FastifyBaseLogger, FastifyInstance, FastifyRequest, preValidationHookHandler } from 'fastify'
import type { KeyRing } from '../../keys/key-ring.js'
import type { KeyUsage } from '../../keys/key-usage.js'
import type { StoredKey } from '../../keys/keys.js'
import type { BufferPool } from '../../lib/buffer-pool.js'
import type { RecentOwners } from '../../lib/recent-owners.js'
import { Turns } from '../../lib/turns.js'
import type { ClientLimits } from '../socket/connection-limits.js'
import { Authentication, setDefaultAccess } from './authenticate.js'
import { acceptJson, type Intake, resumeTurn, takeTurn } from './body.js'
import { BodyBudget } from './body-budget.js'
import { type BrowserLimitSettings, BrowserLimits, limitWrongKeys } from './browser-limits.js'
import { acceptLines } from './line-body.js'
import { type Counters, limitRate, openCounters, registerRateLimit } from './rate-limits.js'
import { acceptSdkRequests, type SdkFormat } from './sdk-requests.js'
import { SignIns } from './sign-in.js'

/** Settings of the service, by their names. */
export interface AdmissionSettings extends BrowserLimitSettings {
  RATE_LIMIT: number
  /** s */
  RATE_LIMIT_WINDOW: number
  WRONG_KEY_LIMIT: number
  /** signs the sign-ins to the page, together with the hash of the key */
  SESSION_SECRET?: string | undefined
  /** bytes of the bodies in memory */
  BODY_MEMORY: number
  /** the Redis that counts requests by key, a list for a Redis Cluster; if absent, this process counts them */
  REDIS_URL?: string | readonly string[] | undefined
}

export interface AdmissionOptions {
  keys: KeyRing
  buffers: BufferPool
  /** called with the sender of each request */
  owners: RecentOwners
  usage: KeyUsage
  clientLimits: ClientLimits
  log: FastifyBaseLogger
  /** epoch ms; default: the clock */
  now?: (() => number) | undefined
}

/** Decides which requests are admitted: by their keys, rate limits and the memory of bodies. */
export class Admission {
  /** the sign-ins to the page */
  readonly signIns: SignIns
  readonly #keys: KeyRing
  readonly #authentication: Authentication
  readonly #sdkAuthentication: Authentication
  readonly #intake: Intake
  readonly #isRateLimited: boolean
  readonly #counters: Counters | null
  readonly #log: FastifyBaseLogger

  constructor(settings: AdmissionSettings, options: AdmissionOptions, counters: Counters | null) {
    const { keys, buffers, clientLimits, log, owners, usage } = options
    this.#keys = keys
    this.signIns = new SignIns(keys, settings.SESSION_SECRET, options.now)
    const wrongKeys = limitWrongKeys(settings.WRONG_KEY_LIMIT, log)
    const limits = new BrowserLimits(settings, log, options.now)
    const budget = new BodyBudget(settings.BODY_MEMORY)
    this.#intake = { pool: buffers, budget, clientLimits, browserLimits: limits, turns: new Turns() }
    const parts = { keys, wrongKeys, limits, owners, usage }
    this.#authentication = new Authentication(parts, this.signIns)
    this.#sdkAuthentication = new Authentication(parts, null)
    this.#isRateLimited = settings.RATE_LIMIT > 0
    this.#counters = counters
    this.#log = log
  }

  /** Bytes of request bodies in memory; see `BodyBudget.bytes`. */
  get bodyBytes(): { known: number; unknown: number } {
    return this.#intake.budget.bytes
  }

  /**
   * Lets only requests with a key that may make the call, and with a body of one of these types,
   * reach the routes of a scope. A sign-in to the page stands for its key.
   */
  guard(scope: FastifyInstance, contentTypes: string[]): void {
    const authentication = this.#authentication
    scope.addHook('onRoute', setDefaultAccess)
    scope.addHook('preParsing', authentication.beforeBody)
    acceptJson(scope, contentTypes, this.#intake, authentication)
    scope.addHook('preValidation', authentication.afterBody)
    scope.addHook('preValidation', waitForTurn(this.#intake.turns))
    if (this.#isRateLimited) scope.addHook('preValidation', limitRate(scope, this.#log))
  }

  /** Within a guarded scope, accepts bodies of lines instead, one event each (see http/admission/line-body.ts). */
  takeLines(scope: FastifyInstance): void {
    acceptLines(scope, this.#intake, this.#authentication)
  }

  /** Like `guard`, for the requests of another vendor's SDKs. */
  guardSdk(scope: FastifyInstance, format: SdkFormat): void {
    acceptSdkRequests(scope, this.#intake, this.#sdkAuthentication, format)
    if (this.#isRateLimited) scope.addHook('preValidation', limitRate(scope, this.#log))
  }

  /**
   * Lets others that wait for the event loop go first. Call it between the pieces of a request's work.
   * @returns when the request may continue; null: immediately
   */
  turn(request: FastifyRequest): Promise<void> | null {
    return resumeTurn(this.#intake.turns, request)
  }

  /** Whether a key that has admitted a request is still valid. */
  isGood(grant: StoredKey): boolean {
    return this.#keys.holds(grant)
  }

  /** Whether a text is a key of a project, of any kind. */
  isProjectKey(projectId: string, text: string): boolean {
    return this.#keys.find(text)?.projectId === projectId
  }

  close(): void {
    this.#counters?.disconnect()
  }
}

/** Makes requests without a body wait for their turn; those with a body have waited before it was parsed. */
function waitForTurn(turns: Turns): preValidationHookHandler {
  return (request, _reply, done) => {
    const turn = request.rawBody ? null : takeTurn(turns, request)
    if (turn) turn.then(() => done())
    else done()
  }
}

/** Connects to the Redis that counts requests, if they are limited; an unavailable one is not an error. */
export async function openAdmission(
  server: FastifyInstance,
  settings: AdmissionSettings,
  options: AdmissionOptions,
): Promise<Admission> {
  const { RATE_LIMIT: max, RATE_LIMIT_WINDOW: seconds, REDIS_URL: url } = settings
  const counters = max > 0 && url !== undefined ? await openCounters(url, options.log) : null
  if (max > 0) registerRateLimit(server, { max, windowMs: 1000 * seconds }, counters, Array.isArray(url))
  return new Admission(settings, options, counters)
}
