import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../contract/errors.js'
import { TokenBuckets } from '../lib/token-buckets.js'

declare module 'fastify' {
  interface FastifyInstance {
    refusalPace: RefusalPace
  }
}

/** Refusals per second without a delay, for each project and kind of key. */
const PROMPT = 100
const SECOND_MS = 1_000

/**
 * Delays the answers to a sender that keeps exceeding a limit. A refusal costs the service more than the request costs
 * its sender: without a delay, eight connections got 12 000 refusals a second, and the event loop had no time for
 * others.
 */
export class RefusalPace {
  readonly #buckets = new TokenBuckets({ tokens: PROMPT, inMs: SECOND_MS }, PROMPT)
  readonly #now: () => number

  /** @param now ms of any clock that never goes back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Counts a refusal. @returns how long to delay it, at most a second, ms */
  delay(owner: string): number {
    const now = this.#now()
    const wait = this.#buckets.wait(owner, now)
    // A second's worth of queued refusals is enough: more would outlast the flood.
    if (wait >= SECOND_MS) return SECOND_MS
    this.#buckets.spend(owner, 1, now)
    return wait
  }
}

export function paceRefusals(server: FastifyInstance): void {
  server.decorate('refusalPace', new RefusalPace())
}

/** @returns a promise that resolves when the response is due; null if it is due now */
export function untilDue({ server, projectId, keyKind }: FastifyRequest, error: Error): Promise<void> | null {
  if (!(error instanceof ApiError) || error.limit === undefined || projectId === '') return null
  const ms = server.refusalPace.delay(`${keyKind} ${projectId}`)
  return ms > 0 ? new Promise((resolve) => setTimeout(resolve, ms)) : null
}
