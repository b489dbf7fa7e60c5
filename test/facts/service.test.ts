import t from 'tap'
import { openStore } from '../../src/store/open.js'
import { LANES, settingsFor, startApp, until } from '../helper.js'
import { completeFacts, countDifferences } from './copied-facts.js'

const EDITS = 4

for (const storage of LANES) {
  t.test(`a service with storage ${storage} copies events and their changes`, async (t) => {
    const client = await startApp(t, await settingsFor(t, storage))
    const ok = async (...args: Parameters<typeof client.call>) => {
      const response = await client.call(...args)
      t.equal(response.statusCode, 200, response.body)
    }
    const { shards, close } = await openStore(client.config)
    t.teardown(close)
    const settled = async (title: string) => {
      await until(title, async () => {
        const done = await shards.each(async ({ clickhouse }) => {
          await completeFacts(clickhouse, ['default'])
          return (await countDifferences(clickhouse)) === 0
        })
        return done.every(Boolean)
      })
    }
    const events = Array.from({ length: 40 }, (_, i) => ({
      event: 'e',
      distinct_id: `u${i % 4}`,
      properties: { plan: 'pro', i },
    }))
    await ok('POST', '/public/track/batch', { events })
    const stored = await until('the events', async () => {
      const found = await client.events()
      return found.length === 40 && found
    })
    await settled('the first events')
    for (const [i, { eventId }] of stored.slice(0, EDITS).entries()) {
      await ok('PUT', `/public/events/${eventId}`, { properties: { plan: 'free' } })
      const range = { from: Date.now() - 86_400_000, to: Date.now() + 86_400_000, interval: 'none' }
      const question = {
        kind: 'series',
        series: [{ event: 'e' }],
        where: ['is', 'properties.plan', ['free']],
        ...range,
      }
      const answer = await client.call('POST', '/public/query', question)
      t.equal(answer.json().results?.[0].total, i + 1, 'a question sees every edit before it')
    }
    await ok('DELETE', `/public/events/${stored.at(-1)?.eventId}`)
    await settled('edits and a delete')
    const counts = await shards.each(({ clickhouse }) =>
      clickhouse.rows<{ free: string; all: string }>(
        "SELECT countIf(JSONExtractString(properties, 'plan') = 'free') AS free, count() AS all FROM event_facts",
      ),
    )
    t.equal(
      counts.flat().reduce((sum, { free }) => sum + Number(free), 0),
      EDITS,
    )
    t.equal(
      counts.flat().reduce((sum, { all }) => sum + Number(all), 0),
      39,
    )
    // As if an erasure had deleted them, and its note had been lost.
    await shards.each(({ clickhouse }) => clickhouse.command("DELETE FROM events WHERE distinct_id = 'u1'"))
    await ok('POST', '/public/users/erase', { distinct_ids: ['u1'] })
    await settled('an erasure of a user without events')
  })
}
