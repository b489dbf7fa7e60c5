// A textbook pipeline: one XADD per event, acknowledged when Redis has it. textbook-worker.ts stores them. The
// environment gives REDIS_URL.
import type { AddressInfo } from 'node:net'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import { TrackBody } from '../../src/contract/schemas.js'
import { validatorCompiler } from '../../src/http/validator.js'

const redis = new Redis(process.env.REDIS_URL ?? '')

const app = Fastify({ logger: false }).withTypeProvider<TypeBoxTypeProvider>()
app.setValidatorCompiler(validatorCompiler(64))
app.post('/public/track', { schema: { body: TrackBody } }, async ({ body }) => {
  await redis.xadd('textbook', '*', 'event', JSON.stringify({ timestamp: Date.now(), ...body }))
  return { status: 1, error: null }
})

await app.listen({ host: '127.0.0.1', port: 0 })
console.log(`serves at http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
