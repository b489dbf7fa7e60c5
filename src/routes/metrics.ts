import type { FastifyPluginAsync } from 'fastify'
import { describeCalls } from '../http/openapi/description.js'
import { shareRun } from '../lib/share-run.js'
import { CONTENT_TYPE, formatMetrics } from '../metrics/format-metrics.js'
import type { Metric } from '../metrics/metric.js'

export interface MetricsOptions {
  read: () => Promise<Metric[]>
}

const CALLS = describeCalls('Operation', {
  metrics: {
    schema: {},
    summary: 'Metrics for Prometheus',
    response: {
      type: 'text',
      example:
        '# HELP tallyhouse_events_accepted_total Events that are durable in the journal.\n# TYPE tallyhouse_events_accepted_total counter\ntallyhouse_events_accepted_total 12416\n',
    },
  },
})

/** Metrics for Prometheus: counts, names of routes and projects, but no user data. */
export const metricsRoute: FastifyPluginAsync<MetricsOptions> = async (app, { read }) => {
  const text = shareRun(async () => Buffer.from(formatMetrics(await read())))
  app.get('/metrics', CALLS.metrics, async (_request, reply) => {
    const metrics = await text()
    reply.header('content-type', CONTENT_TYPE)
    return metrics
  })
}
