import Fastify, { type FastifyRequest } from 'fastify'
import t from 'tap'
import { decorateFew } from '../../src/http/decorate-few.js'

t.test('a member is null until its request sets it, and other requests do not see it', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  decorateFew(app, ['failure', 'toll'])
  const failure: FastifyRequest['failure'] = { code: 'internal', error: new Error('failed') }
  const seen: unknown[] = []
  await app.register(async (scope) => {
    scope.get('/:sets', async (request) => {
      const before = request.failure
      if ((request.params as { sets: string }).sets === 'yes') request.failure = failure
      seen.push([before, request.failure, request.toll])
      return null
    })
  })
  for (const url of ['/yes', '/no', '/yes']) await app.inject(url)
  const [set, unset] = [
    [null, failure, null],
    [null, null, null],
  ]
  t.same(seen, [set, unset, set])
})
