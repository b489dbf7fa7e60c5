import t from 'tap'
import { Usage } from '../../src/projects/usage.js'
import { openStore } from '../../src/store/open.js'
import { readUsage } from '../../src/store/project-usage.js'
import { settingsFor, startApp } from '../helper.js'

const quiet = { warn: () => undefined }

t.test('Usage keeps what was counted before midnight and not stored by then', async (t) => {
  const client = await startApp(t, await settingsFor(t, 'embedded'))
  const { shards, close } = await openStore(client.config)
  t.teardown(close)
  let at = Date.parse('2026-12-31T23:59:59Z')
  const byProject = new Map([['shop', { events: 10, bytes: 100 }]])
  const closing = new AbortController().signal
  const usage = new Usage({ shards, commits: [{ metrics: { byProject } }], log: quiet, closing, now: () => at })
  t.match(usage.own('shop'), { events: 10, bytes: 100 })
  at = Date.parse('2027-01-01T00:00:01Z')
  byProject.set('shop', { events: 13, bytes: 130 })
  t.match(usage.own('shop'), { events: 3, bytes: 30 })
  await usage.write()
  t.strictSame(
    [...((await readUsage(shards, ['shop'], { from: '2026-12-01' })).get('shop') ?? [])].map(([day, { events }]) => [day, events]),
    [
      ['2026-12-31', 10],
      ['2027-01-01', 3],
    ],
  )
})
