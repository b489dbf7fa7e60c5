import type { FastifyPluginAsync } from 'fastify'

export interface HealthOptions {
  /** each part that has to answer, by its name; a check throws where it does not */
  checks: Record<string, () => Promise<void>>
}

/** Says whether the process serves, and whether what it stands on does. */
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
