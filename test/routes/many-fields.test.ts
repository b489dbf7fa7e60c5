import t from 'tap'
import { newProject } from '../shared-app.js'

const numbered = (count: number) =>
  `{${Array.from({ length: count }, (_, n) => `"f${n.toString(36)}":${n % 10}`).join(',')}}`

t.test('bodies with many fields', async (t) => {
  const { app, call, keys } = await newProject()

  t.test('an event may have any number of fields and elements that fits the body limit', async (t) => {
    const all = [numbered(100_000), `{"list":[${'0,'.repeat(500_000)}0]}`, `{"lists":[${'[],'.repeat(300_000)}[]]}`]
    for (const [n, properties] of all.entries()) {
      const body = `{"apiKey":"${keys.secret}","event":"many","distinct_id":"of-one-${n}","properties":${properties}}`
      const tracked = await call('POST', '/public/track', body)
      t.equal(tracked.body, '{"status":1,"error":null}')
      const page = await call('GET', `/public/events?distinct_id=of-one-${n}`)
      t.ok(page.body.includes(`"properties":${properties}`), 'it is returned as it was sent')
      const path = `/public/events/${tracked.headers['x-event-id']}`
      t.equal((await call('PUT', path, '{"properties":{}}')).statusCode, 200)
      const edited = await call('PUT', path, `{"properties":${properties}}`)
      t.equal(edited.body, '{"status":1,"error":null}', 'an edited event, too')
      t.ok((await call('GET', path)).body.includes(`"properties":${properties}`))
    }
  })

  t.test('the events of a full batch may, too', async (t) => {
    const properties = numbered(400)
    const event = `{"event":"wide","distinct_id":"of-batch","properties":${properties}}`
    const taken = await call('POST', '/public/track/batch', `{"events":[${Array(1000).fill(event).join(',')}]}`)
    t.equal(taken.body, '{"status":1,"error":null,"accepted":1000}')
    const page = await call('GET', '/public/events?limit=10000&distinct_id=of-batch')
    t.equal(page.body.split(`"properties":${properties}`).length - 1, 1000)
  })

  t.test('a batch with many more events than allowed is refused for their number', async (t) => {
    const event = '{"event":"many","distinct_id":"of-many","properties":{"n":1}}'
    const events = `"events":[${Array(100_000).fill(event).join(',')}]`
    t.match((await call('POST', '/public/track/batch', `{${events}}`)).json(), { code: 'too_many_events' })
    const unknown = {
      method: 'POST',
      url: '/public/track/batch',
      headers: { 'content-type': 'application/json' },
    } as const
    const payload = `{"apiKey":"sk_that_nobody_has",${events}}`
    t.match((await app.inject({ ...unknown, payload })).json(), { code: 'unauthorized' }, 'but first for its key')
  })
})
