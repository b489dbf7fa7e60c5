import t from 'tap'
import { openStore } from '../../src/store/open.js'
import { STORAGES, settingsFor, startApp, until } from '../helper.js'
import { completeFacts, countDifferences } from './shard.js'

for (const storage of [...STORAGES, 'lanes'] as const) {
  t.test(`a service with storage ${storage} copies events, and what changes them`, async (t) => {
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
    const [first, second] = await until('the events', async () => {
      const stored = await client.events()
      return stored.length === 40 && stored
    })
    await settled('the first events')
    await ok('PUT', `/public/events/${first?.eventId}`, { properties: { plan: 'free' } })
    await ok('DELETE', `/public/events/${second?.eventId}`)
    await settled('an edit and a delete')
    const counts = await shards.each(({ clickhouse }) =>
      clickhouse.rows<{ free: string; all: string }>(
        "SELECT countIf(JSONExtractString(properties, 'plan') = 'free') AS free, count() AS all FROM event_facts",
      ),
    )
    t.equal(
      counts.flat().reduce((sum, { free }) => sum + Number(free), 0),
      1,
    )
    t.equal(
      counts.flat().reduce((sum, { all }) => sum + Number(all), 0),
      39,
    )
  })
}
