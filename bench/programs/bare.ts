// The upper limit: the framework, schemas, validator and responses of the service, but Fastify's own parser, and no
// store.
import type { AddressInfo } from 'node:net'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify from 'fastify'
import { EventParams } from '../../src/contract/query-schemas.js'
import { Accepted, BatchBody, Done, EditBody, ProfileBody, TrackBody } from '../../src/contract/schemas.js'
import { validatorCompiler } from '../../src/http/validator.js'

const MIB = 1024 * 1024
const EVENT_ID = '01234567-89ab-7cde-8f01-23456789abcd'
const done = { status: 1, error: null } as const

const app = Fastify({ logger: false, bodyLimit: 20 * MIB }).withTypeProvider<TypeBoxTypeProvider>()
app.setValidatorCompiler(validatorCompiler(64))

app.post('/public/track', { schema: { body: TrackBody, response: { 200: Done } } }, async (_request, reply) => {
  reply.header('x-event-id', EVENT_ID)
  return done
})
app.post('/public/track/batch', { schema: { body: BatchBody, response: { 200: Accepted } } }, async ({ body }) => ({
  ...done,
  accepted: body.events.length,
}))
app.post('/public/users/profile', { schema: { body: ProfileBody, response: { 200: Done } } }, async () => done)
app.put(
  '/public/events/:eventId',
  { schema: { params: EventParams, body: EditBody, response: { 200: Done } } },
  async () => done,
)

await app.listen({ host: '127.0.0.1', port: 0 })
console.log(`serves at http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
