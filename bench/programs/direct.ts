// What one would do without Tallyhouse: each event is sent to ClickHouse, which collects them (async inserts) and
// responds when they are stored. The environment gives CLICKHOUSE_URL; the table is direct_events.
import type { AddressInfo } from 'node:net'
import { createClient } from '@clickhouse/client'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify from 'fastify'
import { TrackBody } from '../../src/contract/schemas.js'
import { validatorCompiler } from '../../src/http/validator.js'

const client = createClient({
  url: process.env.CLICKHOUSE_URL ?? '',
  max_open_connections: 100,
  clickhouse_settings: { async_insert: 1, wait_for_async_insert: 1 },
})

const app = Fastify({ logger: false }).withTypeProvider<TypeBoxTypeProvider>()
app.setValidatorCompiler(validatorCompiler(64))
app.post('/public/track', { schema: { body: TrackBody } }, async ({ body }) => {
  const { event, distinct_id, properties, timestamp } = body
  const row = { event, distinct_id, timestamp: timestamp ?? Date.now(), properties: JSON.stringify(properties ?? {}) }
  await client.insert({ table: 'direct_events', values: [row], format: 'JSONEachRow' })
  return { status: 1, error: null }
})

await app.listen({ host: '127.0.0.1', port: 0 })
console.log(`serves at http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
