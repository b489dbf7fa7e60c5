import t from 'tap'
import { command } from '../../src/cli/facts.js'
import { requestFacts } from '../../src/store/event-changes.js'
import { readFactsStatus } from '../../src/store/fact-status.js'
import { openStore } from '../../src/store/open.js'
import { completeFacts, countDifferences } from '../facts/copied-facts.js'
import { ANY_STORAGE, settingsFor, startApp, until } from '../helper.js'
import { run } from './lanes-store.js'

for (const storage of ANY_STORAGE) {
  t.test(`tallyhouse facts shows them, rebuilds them, and leaves a project out, with storage ${storage}`, async (t) => {
    const env = await settingsFor(t, storage)
    const client = await startApp(t, env)
    const { clickhouse, close } = await openStore(client.config)
    t.teardown(close)
    const events = Array.from({ length: 10 }, (_, i) => ({ event: 'e', distinct_id: `u${i}`, properties: { i } }))
    t.equal((await client.call('POST', '/public/track/batch', { events })).statusCode, 200)
    await until('the events', async () => (await client.events()).length === 10)
    await completeFacts(clickhouse, ['default'])
    const shown = await run(command, [], env)
    t.equal(shown.code, 0)
    t.match(shown.printed, /^100 % of 10 events are copied \(1 MiB\); the newest was accepted \d+ s ago\.\n$/)

    const generation = async () => {
      const [row] = await clickhouse.rows<{ generation: number }>(
        'SELECT max(generation) AS generation FROM facts_state',
      )
      return row?.generation ?? 0
    }
    const before = await generation()
    t.equal((await run(command, ['rebuild'], env)).code, 0)
    await until('the next generation', async () => (await generation()) > before)
    await completeFacts(clickhouse, ['default'])
    t.equal(await countDifferences(clickhouse), 0)

    const count = async () => {
      const [row] = await clickhouse.rows<{ count: string }>('SELECT count() AS count FROM event_facts')
      return Number(row?.count)
    }
    t.equal(await count(), 10)
    await t.rejects(run(command, ['leave-out', 'default', 'typo'], env), /no project typo/)
    t.equal((await run(command, ['leave-out', 'default'], env)).code, 0)
    await until('no facts of the project', async () => (await count()) === 0)
    t.match((await run(command, ['show'], { ...env, FACTS: 'off' })).printed, /^FACTS=off is set here/)
    await until('the change to be followed', async () => {
      const { printed } = await run(command, ['show'], env)
      return printed === 'There are no events to copy.\nLeft out: default.\n'
    })
    await t.rejects(run(command, ['take-in', 'default', 'typo'], env), /no project typo/)
    t.equal((await run(command, ['take-in', 'default'], env)).code, 0)
    await completeFacts(clickhouse, ['default'])
    t.equal(await count(), 10)
    t.equal(await countDifferences(clickhouse), 0)
    t.equal((await readFactsStatus(clickhouse, 0)).facts, 10, 'without those that were removed')
    await requestFacts(clickhouse, 'leave_out', 'gone')
    t.equal((await run(command, ['take-in', 'gone'], env)).code, 0, 'a project that no longer exists')
  })
}

t.test('tallyhouse facts names missing requirements', async (t) => {
  await t.rejects(run(command, ['drop'], {}), /Specify an action/)
  await t.rejects(run(command, ['leave-out'], {}), /Name the projects/)
  await t.rejects(run(command, ['rebuild', 'p'], {}), /for all projects/)
})
