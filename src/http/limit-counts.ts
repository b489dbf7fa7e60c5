import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ApiError, LimitName } from '../contract/errors.js'
import type { KeyKind } from '../keys/keys.js'

declare module 'fastify' {
  interface FastifyInstance {
    limitCounts: LimitCounts
  }
}

/** Maximum number of counted combinations; refusals of further projects are counted without a project. */
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
 * Counts refusals by limit and caller: an operator first asks who has hit a limit. Operators create the projects,
 * so there are few, but the counts are bounded anyway.
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

/** Counts a request that was refused by a limit. Everything that responds with an error calls this once. */
export function countLimit(request: FastifyRequest, { limit }: ApiError): void {
  if (limit !== undefined) request.server.limitCounts.add(limit, request)
}

/** @returns live counts */
export function countLimits(server: FastifyInstance): LimitCounts {
  const counts = new LimitCounts()
  server.decorate('limitCounts', counts)
  return counts
}
