import type { FastifyPluginAsync } from 'fastify'

export interface HealthOptions {
  /** by the name of the part; a check throws if the part is unavailable */
  checks: Record<string, () => Promise<void>>
}

/** Liveness of the process, and readiness of the parts that it depends on. */
export const health: FastifyPluginAsync<HealthOptions> = async (app, { checks }) => {
  app.get('/health/live', async () => ({ status: 1, error: null }))

  app.get('/health/ready', async (_request, reply) => {
    const results = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => {
        const isReady = await check().then(
          () => true,
          () => false,
        )
        return [name, isReady ? 'ready' : 'unavailable'] as const
      }),
    )
    const states = Object.fromEntries(results)
    const down = results.filter(([, state]) => state !== 'ready').map(([name]) => name)
    if (down.length === 0) return { status: 1, error: null, ...states }
    reply.code(503).header('retry-after', '1')
    return { status: 0, error: `Not ready: ${down.join(', ')}.`, code: 'unavailable', ...states }
  })
}
