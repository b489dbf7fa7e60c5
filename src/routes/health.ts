import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { ReadyQuery } from '../contract/query-schemas.js'

export interface HealthOptions {
  /** by the number of the lane; a check throws if its journal is unavailable */
  lanes: (() => Promise<void>)[]
  /** by the number of the shard; a check throws if it is unavailable */
  shards: (() => Promise<void>)[]
}

type State = 'ready' | 'unavailable'

/** Liveness of the process, and readiness of the parts that it depends on. */
export const health: FastifyPluginAsyncTypebox<HealthOptions> = async (app, { lanes, shards }) => {
  app.get('/health/live', async () => ({ status: 1, error: null }))

  app.get('/health/ready', { schema: { querystring: ReadyQuery } }, async ({ query: { partial } }, reply) => {
    const [ofLanes, ofShards] = await Promise.all([statesOf(lanes), statesOf(shards)])
    const states = {
      journal: all(ofLanes),
      store: all(ofShards),
      ...(lanes.length > 1 && { lanes: { ...ofLanes } }),
      ...(shards.length > 1 && { shards: { ...ofShards } }),
    }
    const down = [...namesOf('journal', 'lane', ofLanes), ...namesOf('store', 'shard', ofShards)]
    if (down.length === 0) return { status: 1, error: null, ...states }
    const error = `Not ready: ${down.join(', ')}.`
    if (partial === 'true' && ofLanes.includes('ready') && ofShards.includes('ready'))
      return { status: 1, error: null, ...states }
    reply.code(503).header('retry-after', '1')
    return { status: 0, error, code: 'unavailable', ...states }
  })
}

function statesOf(checks: (() => Promise<void>)[]): Promise<State[]> {
  return Promise.all(
    checks.map((check) =>
      check().then(
        (): State => 'ready',
        (): State => 'unavailable',
      ),
    ),
  )
}

function all(states: State[]): State {
  return states.every((state) => state === 'ready') ? 'ready' : 'unavailable'
}

/** What to call the parts that are unavailable: the only one by its kind, one of several by its number. */
function namesOf(only: string, one: string, states: State[]): string[] {
  return states.flatMap((state, i) => (state === 'ready' ? [] : [states.length === 1 ? only : `${one} ${i}`]))
}
