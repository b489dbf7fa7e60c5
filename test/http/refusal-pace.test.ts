import t from 'tap'
import { RefusalPace } from '../../src/http/refusal-pace.js'
import { SECRET_KEY, settingsFor, startApp } from '../helper.js'

t.test(
  'RefusalPace sends a hundred refusals a second immediately, and delays further ones for up to a second',
  async (t) => {
    let now = 0
    const pace = new RefusalPace(() => now)
    const delays = Array.from({ length: 1000 }, () => pace.delay('a'))
    t.ok(delays.slice(0, 100).every((ms) => ms === 0))
    t.ok(delays.slice(100).every((ms) => ms > 0 && ms <= 1000))
    t.equal(pace.delay('b'), 0, 'each owner has its own')
    now += 2_000
    t.equal(pace.delay('a'), 0, 'it is over soon after the flood')
  },
)

t.test('a key that stays over its limit is refused more and more slowly, in each format', async (t) => {
  const { call } = await startApp(t, {
    ...(await settingsFor(t, 'embedded')),
    FACTS: 'off',
    RATE_LIMIT: '1',
    RATE_LIMIT_WINDOW: '86400',
  })
  const track = () => call('POST', '/public/track', { apiKey: SECRET_KEY, event: 'e', distinct_id: 'u' })
  t.equal((await track()).statusCode, 200)
  const flood = async (send: () => ReturnType<typeof track>) => {
    const began = performance.now()
    const answers = await Promise.all(Array.from({ length: 250 }, send))
    t.ok(
      answers.every(({ statusCode }) => statusCode === 429),
      'all are refused',
    )
    return performance.now() - began
  }
  t.ok((await flood(track)) >= 900, 'the last ones wait for their turn')
  const authorization = `Basic ${Buffer.from(`${SECRET_KEY}:`).toString('base64')}`
  const segment = () => call('POST', '/segment/v1/track', { type: 'track', event: 'e', userId: 'u' }, { authorization })
  t.ok((await flood(segment)) >= 900)
})
