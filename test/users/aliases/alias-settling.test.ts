import t from 'tap'
import { Shards } from '../../../src/clickhouse/shards.js'
import { newestRows } from '../../../src/store/newest-rows.js'
import { openStore } from '../../../src/store/open.js'
import { AliasSettling, type AliasSettlingOptions } from '../../../src/users/aliases/alias-settling.js'
import { callsOf } from '../../alias-calls.js'
import { type Client, LAYOUTS, settingsFor, startApp, until } from '../../helper.js'

const NAMES = 40
const STEPS = [{ alias: 'step', distinctId: 'user', stepAt: 1 }]

/** What ClickHouse has of each alias: whom it leads to, and whether others may lead to it. */
async function storedLinks({ config }: Client): Promise<Map<string, { to: string; isStep: boolean }>> {
  const { shards, close } = await openStore(config)
  const rows = await shards.rows<{ alias: string; distinct_id: string; step_at: string }>(
    `SELECT alias, distinct_id, step_at FROM ${newestRows(shards, 'aliases')} WHERE distinct_id != ''`,
  )
  await close()
  return new Map(rows.map(({ alias, distinct_id, step_at }) => [alias, { to: distinct_id, isStep: step_at !== '0' }]))
}

async function untilSettled(client: Client, user: string): Promise<void> {
  await until('the names to lead to their user in one step', async () => {
    const links = [...(await storedLinks(client)).values()]
    return links.length === NAMES && links.every(({ to, isStep }) => to === user && !isStep)
  })
}

for (const storage of LAYOUTS) {
  t.test(storage, async (t) => {
    const env = await settingsFor(t, storage)
    const client = await startApp(t, env)
    const name = (i: number) => `name ${i}`
    const users = async ({ call }: Client) => {
      const question = { kind: 'series', from: 0, series: [{ event: 'e', metric: 'users' }], interval: 'none' }
      return (await call('POST', '/public/query', question)).json().results[0].total
    }
    const link = async ({ alias }: ReturnType<typeof callsOf>, from: number, to: number) => {
      for (let i = from; i < to; i++) t.equal((await alias(name(i + 1), name(i))).statusCode, 200)
    }

    t.test('names resolve immediately, and lead to their user in one step soon', async (t) => {
      const calls = callsOf(client)
      for (let i = 0; i <= NAMES; i++) await calls.track(name(i))
      t.equal(await users(client), NAMES + 1)
      await link(calls, 0, NAMES / 2)
      t.equal(await users(client), 1 + NAMES / 2)
      await link(calls, NAMES / 2, NAMES)
      t.equal(await users(client), 1)
      t.equal((await calls.all(name(0))).filter((line) => line.includes('"type":"alias"')).length, NAMES)
      await untilSettled(client, name(NAMES))
      t.equal(await users(client), 1)
    })

    t.test('another process finishes what a process left when it ended', async (t) => {
      const calls = callsOf(client)
      const last = name(NAMES)
      t.equal((await calls.alias('later', last)).statusCode, 200)
      t.equal(
        (await client.call('DELETE', `/public/users/later/aliases/${encodeURIComponent(name(0))}`)).statusCode,
        200,
      )
      await client.app.close()
      const next = await startApp(t, env)
      t.equal(await users(next), 2)
      await untilSettled(next, 'later')
      t.equal(await users(next), 2)
    })
  })
}

t.test('a project that makes new steps all the time does not keep those of another waiting', async (t) => {
  const settled: string[] = []
  // Each round finds as many names again, as if somebody linked users without pause.
  const aliases = {
    listSteps: async (projectId: string) => (settled.includes('quiet') && projectId === 'quiet' ? [] : STEPS),
    findAliases: async () =>
      Array.from({ length: 5_000 }, (_, i) => ({ alias: `name ${i}`, distinctId: 'step', stepAt: 0 })),
    settle: async (projectId: string) => void settled.push(projectId),
  }
  const settling = new AliasSettling({
    aliases,
    states: { change: async () => undefined },
    barrier: { requireProject: async () => 0n },
    shards: new Shards([]),
    log: { warn: (fields: object) => t.fail(JSON.stringify(fields)) },
    gatherMs: 0,
  } as unknown as AliasSettlingOptions)
  t.teardown(() => settling.close())
  settling.note('busy')
  await until('the busy one', () => settled.length > 0)
  settling.note('quiet')
  await until('the quiet one', () => settled.includes('quiet'))
  const before = settled.length
  await until('the busy one to go on', () => settled.slice(before).includes('busy'))
})
