import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { loadConfig } from '../../src/config.js'
import type { Lane } from '../../src/lanes/lane.js'
import { openLanes } from '../../src/lanes/lanes.js'
import { openLog } from '../../src/lib/log.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { fromServer, startRedis, temporaryFolder, until } from '../helper.js'
import { batchFrom, eventFrom } from '../submissions.js'

const MIB = 1024 * 1024
const closing = new AbortController().signal
/** Never used, because the writers are not started. */
const NOWHERE = 'http://127.0.0.1:1'

async function lanesOf(t: Test, env: Record<string, string>) {
  const clickhouse = new ClickHouse({ url: NOWHERE })
  t.teardown(() => clickhouse.close())
  const config = loadConfig({ ...env, CLICKHOUSE_URL: NOWHERE })
  const layout = { version: 1, lanes: config.LANES, shards: 1 }
  const lanes = await openLanes(config, Shards.of(clickhouse), { layout, log: await openLog('silent'), closing })
  t.teardown(() => lanes.close())
  const numberOf = (appended: { journalId: number } | null) => lanes.findByJournal(appended?.journalId ?? 0)?.number
  return { ...lanes, numberOf }
}

const event = (bytes: number) =>
  Buffer.from(JSON.stringify({ event: 'e', distinct_id: 'u', properties: { a: 'x'.repeat(bytes) } }))
const batch = (bytes: number) => Buffer.from(`{"events":[${event(bytes)}]}`)

/** Fills the journal of a lane with projects that stay within their shares. */
async function fill({ journal }: Pick<Lane, 'journal'>): Promise<void> {
  for (let i = 0; (await journal.depth()).bytes <= MIB; i++) {
    await journal.write([
      { type: 'append', ...fromServer(`filler ${i}`), count: 1, body: batch(400 * 1024), ids: NO_IDS },
    ])
  }
}

for (const journal of ['LMDB', 'Redis']) {
  t.test(`lanes with ${journal}`, async (t) => {
    const place: Record<string, string> =
      journal === 'Redis' ? { REDIS_URL: (await startRedis(t)).url } : { DATA_DIR: await temporaryFolder(t) }
    const { all, commits, numberOf } = await lanesOf(t, {
      ...place,
      LANES: '3',
      HOME_LANE: '1',
      JOURNAL_MAX_BYTES: String(MIB),
    })

    t.test('events without a key go to the home lane', async (t) => {
      for (let i = 0; i < 5; i++)
        t.equal(numberOf(await commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS)), 1)
    })

    t.test('consecutive requests get rising positions over the lanes', async (t) => {
      let before = 0n
      for (let i = 0; i < 30; i++) {
        const lane = all[i % 3]
        const { position } = (await lane?.commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS)) ?? {
          position: 0n,
        }
        t.ok(position > before)
        before = position
      }
    })

    t.test('another lane takes and counts everything that a full lane refuses', async (t) => {
      const home = all[1]
      if (!home) return t.fail('there are three')
      await fill(home)
      const full = await home.journal.depth()
      const taken = await Promise.all([
        ...Array.from({ length: 5 }, () => commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS)),
        commits.append(batchFrom(fromServer('p'), batch(10), 1), NO_IDS),
      ])
      for (const appended of taken) t.not(numberOf(appended), 1)
      t.strictSame(
        taken.slice(0, 5).map((appended) => appended?.index),
        [0, 1, 2, 3, 4],
        'each has its place in the entry',
      )
      t.equal((await home.journal.depth()).entries, full.entries)
      t.strictSame(home.commits.metrics.refused, { overloaded: 0, unavailable: 0, internal: 0 })
      t.not(
        numberOf(await commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS)),
        1,
        'and it is not used for a while',
      )
      const key = { key: '00000001'.padEnd(64, '0'), fingerprint: '0'.repeat(64) }
      await t.rejects(commits.append(batchFrom(fromServer('p'), batch(1), 1), { kind: 'request', key }), {
        code: 'overloaded',
        message: /^In lane 1\b/,
      })
    })

    t.test('the last lane reports that all are full', async (t) => {
      for (const lane of all) await fill(lane)
      await t.rejects(commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS), {
        code: 'overloaded',
        message: /^In lane \d/,
      })
    })
  })
}

t.test('a lane that is down is not used until it is back', async (t) => {
  const [first, second] = await Promise.all([startRedis(t), startRedis(t)])
  const { all, commits, numberOf } = await lanesOf(t, { REDIS_URL: `${first.url},${second.url}`, HOME_LANE: '0' })
  await first.kill()
  await until('the journal to notice', () => all[0]?.journal.isUp === false)
  t.equal(numberOf(await commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS)), 1)
  t.equal(numberOf(await commits.append(batchFrom(fromServer('p'), batch(1), 1), NO_IDS)), 1)
  await first.restart()
  await until(
    'the lane to be used',
    async () => numberOf(await commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS)) === 0,
  )
})

t.test('another lane takes the waiting events of a hanging lane, once', async (t) => {
  const [first, second] = await Promise.all([startRedis(t), startRedis(t)])
  const { all, commits, numberOf } = await lanesOf(t, { REDIS_URL: `${first.url},${second.url}`, HOME_LANE: '0' })
  const [home, other] = all
  if (!home || !other) return t.fail('there are two')
  first.process.kill('SIGSTOP')
  t.teardown(() => first.process.kill('SIGCONT'))
  let isAnswered = false
  const inFlight = commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS).finally(() => {
    isAnswered = true
  })
  await new Promise((sent) => setImmediate(() => setImmediate(sent)))
  const taken = await Promise.all([
    ...Array.from({ length: 5 }, () => commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS)),
    commits.append(batchFrom(fromServer('p'), batch(10), 1), NO_IDS),
  ])
  for (const appended of taken) t.equal(numberOf(appended), 1)
  t.equal(
    numberOf(await commits.append(eventFrom(fromServer('p'), event(1)), NO_IDS)),
    1,
    'new ones go there immediately',
  )
  t.notOk(isAnswered, 'a write in flight is not passed on, and nothing waits for it')
  first.process.kill('SIGCONT')
  t.equal(numberOf(await inFlight), 0)
  t.strictSame([home.commits.metrics.accepted, other.commits.metrics.accepted], [1, 7])
  const depths = await Promise.all(all.map(({ journal }) => journal.depth()))
  t.strictSame(
    depths.map(({ entries }) => entries),
    [1, 3],
  )
  t.strictSame(home.commits.metrics.refused, { overloaded: 0, unavailable: 0, internal: 0 })
  t.equal(home.commits.queuedBytes, 0)
})
