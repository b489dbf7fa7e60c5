import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { ApiError } from '../contract/errors.js'
import { ReadyQuery } from '../contract/query-schemas.js'
import { Done, Ready } from '../contract/schemas.js'
import { describeCalls } from '../http/openapi/description.js'
import { shareRun } from '../lib/share-run.js'

export interface HealthOptions {
  /** by the number of the lane; a check throws if its journal is unavailable, or takes no writes */
  lanes: (() => Promise<void>)[]
  /** by the number of the shard; a check throws if it is unavailable */
  shards: (() => Promise<void>)[]
  /** number of parts that the store has lost or cannot read */
  lostParts: () => number
  /** number of received events that are in none of the counts of the ledger */
  missingEvents: () => number
}

type State = 'ready' | 'unavailable'

interface Checked {
  states: State[]
  /** why some are unavailable, if there is a message for clients */
  reasons: Set<string>
}

const CALLS = describeCalls('Operation', {
  live: { schema: {}, summary: 'Whether the process is alive', response: { schema: Done } },
  ready: {
    schema: { querystring: ReadyQuery },
    summary: 'Whether the journal and the store are available',
    description:
      'If one is unavailable, the 503 says which in the same fields. A journal also counts as unavailable if its disk, or Redis, has no room for ' +
      'writes. A store of several lanes or shards is ready when all are; ' +
      'with `partial=true`, when at least one lane and one shard are. ' +
      'With `strict=true` it is not ready either while the store has lost or damaged parts, or lacks events that were received.',
    response: { schema: Ready, example: { journal: 'ready', store: 'ready' } },
    errors: ['unavailable'],
  },
})

/** Liveness of the process, and readiness of the parts that it depends on. */
export const health: FastifyPluginAsyncTypebox<HealthOptions> = async (app, options) => {
  const { lanes, shards, lostParts, missingEvents } = options
  const checkLanes = shareRun(() => checkAll(lanes))
  const checkShards = shareRun(() => checkAll(shards))
  app.get('/health/live', CALLS.live, async () => ({ status: 1, error: null }))

  app.get('/health/ready', CALLS.ready, async ({ query: { partial, strict } }, reply) => {
    const [{ states: ofLanes, reasons }, { states: ofShards }] = await Promise.all([checkLanes(), checkShards()])
    const states = {
      journal: all(ofLanes),
      store: all(ofShards),
      ...(lanes.length > 1 && { lanes: { ...ofLanes } }),
      ...(shards.length > 1 && { shards: { ...ofShards } }),
    }
    const [lost, missing] = strict === 'true' ? [lostParts(), missingEvents()] : [0, 0]
    if (lost > 0 || missing > 0) {
      const what = lost > 0 ? `has lost or damaged parts (${lost})` : `lacks events that were received (${missing})`
      const error =
        `Not ready: the store ${what}, and continues without them. ` +
        'The log and `tallyhouse verify` list them and what they contained.'
      reply.code(503).header('retry-after', '60')
      return { status: 0, error, code: 'unavailable', ...states }
    }
    const down = [...nameUnavailable('journal', 'lane', ofLanes), ...nameUnavailable('store', 'shard', ofShards)]
    if (down.length === 0) return { status: 1, error: null, ...states }
    const error = [`Not ready: ${down.join(', ')}.`, ...reasons].join(' ')
    if (partial === 'true' && ofLanes.includes('ready') && ofShards.includes('ready'))
      return { status: 1, error: null, ...states }
    reply.code(503).header('retry-after', '1')
    return { status: 0, error, code: 'unavailable', ...states }
  })
}

async function checkAll(checks: (() => Promise<void>)[]): Promise<Checked> {
  const results = await Promise.allSettled(checks.map((check) => check()))
  const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  return {
    states: results.map(({ status }) => (status === 'fulfilled' ? 'ready' : 'unavailable')),
    reasons: new Set(failures.filter((error) => error instanceof ApiError).map(hideLaneAddress)),
  }
}

/** The message without the address of a lane, which not everyone may see. */
function hideLaneAddress({ message, cause }: ApiError): string {
  return cause instanceof ApiError ? cause.message : message
}

function all(states: State[]): State {
  return states.every((state) => state === 'ready') ? 'ready' : 'unavailable'
}

/** Names the unavailable parts: the only one by its kind, one of several by its number. */
function nameUnavailable(only: string, one: string, states: State[]): string[] {
  return states.flatMap((state, i) => (state === 'ready' ? [] : [states.length === 1 ? only : `${one} ${i}`]))
}
