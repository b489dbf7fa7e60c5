import type { FastifyPluginAsync } from 'fastify'
import { shareRun } from '../lib/share-run.js'
import { CONTENT_TYPE, formatMetrics } from '../metrics/format-metrics.js'
import type { Metric } from '../metrics/metric.js'

export interface MetricsOptions {
  read: () => Promise<Metric[]>
}

/** What Prometheus scrapes: counts and the names of routes, but no user data. */
export const metricsRoute: FastifyPluginAsync<MetricsOptions> = async (app, { read }) => {
  const text = shareRun(async () => Buffer.from(formatMetrics(await read())))
  app.get('/metrics', async (_request, reply) => {
    const metrics = await text()
    reply.header('content-type', CONTENT_TYPE)
    return metrics
  })
}
