import type { FastifyPluginAsync } from 'fastify'

export interface MetricsOptions {
  contentType: string
  /** the text that Prometheus reads */
  figures: () => Promise<string>
}

/** What Prometheus scrapes. It holds counts and names of routes, and nothing of anybody's data. */
export const metricsRoute: FastifyPluginAsync<MetricsOptions> = async (app, { contentType, figures }) => {
  app.get('/metrics', async (_request, reply) => {
    reply.header('content-type', contentType)
    return await figures()
  })
}
