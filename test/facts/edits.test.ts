import t from 'tap'
import { STORAGES, settingsFor, startApp, until } from '../helper.js'

const EDITS = 10

for (const storage of STORAGES) {
  t.test(`a question sees every edit before it with storage ${storage}`, async (t) => {
    const client = await startApp(t, await settingsFor(t, storage))
    const events = Array.from({ length: 100 }, (_, i) => ({ event: 'e', distinct_id: `u${i}`, properties: { v: 0 } }))
    t.equal((await client.call('POST', '/public/track/batch', { events })).statusCode, 200)
    const stored = await until('the events', async () => {
      const found = await client.events()
      return found.length === events.length && found
    })
    let edits = 0
    for (const { eventId } of stored.slice(0, EDITS)) {
      const edited = await client.call('PUT', `/public/events/${eventId}`, { properties: { v: 1 } })
      t.equal(edited.statusCode, 200)
      const range = { from: Date.now() - 86_400_000, to: Date.now() + 86_400_000, interval: 'none' }
      const question = { kind: 'series', series: [{ event: 'e' }], where: ['gt', 'properties.v', 0], ...range }
      const answer = await client.call('POST', '/public/query', question)
      t.equal(answer.json().results?.[0].total, ++edits, answer.body)
    }
  })
}
