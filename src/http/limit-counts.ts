import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ApiError, LimitName } from '../contract/errors.js'
import type { KeyKind } from '../keys/keys.js'

declare module 'fastify' {
  interface FastifyInstance {
    limitCounts: LimitCounts
  }
}

/** The most combinations that are counted apart; those of further projects count for none. */
const MAX_COUNTS = 1000

/** How often requests of one project and kind of key were refused by a limit. */
export interface LimitCount {
  limit: LimitName
  /** empty if the request had no known key */
  projectId: string
  keyKind: KeyKind | null
  count: number
}

/**
 * Counts what limits refuse, by whom they refused: who has met one is the first question of an operator. Projects are made
 * by operators, so they are few; all the same, the counts are bounded.
 */
export class LimitCounts {
  readonly #counts = new Map<string, LimitCount>()

  add(limit: LimitName, { projectId, keyKind }: Pick<FastifyRequest, 'projectId' | 'keyKind'>): void {
    const name = `${limit} ${keyKind} ${projectId}`
    const known = this.#counts.get(name)
    if (known) known.count++
    else if (projectId !== '' && this.#counts.size >= MAX_COUNTS) this.add(limit, { projectId: '', keyKind: null })
    else this.#counts.set(name, { limit, projectId, keyKind, count: 1 })
  }

  get all(): LimitCount[] {
    return [...this.#counts.values()]
  }
}

/** Counts a request that an error refuses, if a limit was met. Whatever answers with an error calls this, once. */
export function countLimit(request: FastifyRequest, { limit }: ApiError): void {
  if (limit !== undefined) request.server.limitCounts.add(limit, request)
}

/** @returns live counts */
export function countLimits(server: FastifyInstance): LimitCounts {
  const counts = new LimitCounts()
  server.decorate('limitCounts', counts)
  return counts
}
