import type { FastifyPluginAsync } from 'fastify'
import type { Metrics } from '../metrics.js'

export interface MetricsOptions {
  metrics: Metrics
}

/** What Prometheus scrapes. It holds counts and names of routes, and nothing of anybody's data. */
export const metricsRoute: FastifyPluginAsync<MetricsOptions> = async (app, { metrics }) => {
  app.get('/metrics', async (_request, reply) => {
    reply.header('content-type', metrics.contentType)
    return await metrics.text()
  })
}
