import t from 'tap'
import { Shards } from '../../../src/clickhouse/shards.js'
import { DEFAULT_PROJECT } from '../../../src/keys/keys.js'
import { newestRows } from '../../../src/store/newest-rows.js'
import { openStore } from '../../../src/store/open.js'
import { AliasSettling, type AliasSettlingOptions } from '../../../src/users/aliases/alias-settling.js'
import { Aliases, type AliasesOptions } from '../../../src/users/aliases/aliases.js'
import { callsOf } from '../../alias-calls.js'
import { type Client, LANES, settingsFor, startApp, until } from '../../helper.js'

const NAMES = 12
const STEPS = [{ alias: 'step', distinctId: 'user', stepAt: 1 }]

/** The aliases in ClickHouse: the target of each, and whether others may point to it. */
async function storedLinks(shards: Shards): Promise<Map<string, { to: string; isStep: boolean }>> {
  const rows = await shards.rows<{ alias: string; distinct_id: string; step_at: string }>(
    `SELECT alias, distinct_id, step_at FROM ${newestRows(shards, 'aliases')} WHERE distinct_id != ''`,
  )
  return new Map(rows.map(({ alias, distinct_id, step_at }) => [alias, { to: distinct_id, isStep: step_at !== '0' }]))
}

async function untilSettled({ config }: Client, user: string): Promise<void> {
  const { shards, close } = await openStore(config)
  await until('the names to lead to their user in one step', async () => {
    const links = [...(await storedLinks(shards)).values()]
    return links.length === NAMES && links.every(({ to, isStep }) => to === user && !isStep)
  })
  await close()
}

for (const storage of LANES) {
  t.test(storage, async (t) => {
    const env = { ...(await settingsFor(t, storage)), FACTS: 'off' }
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

    t.test('another process completes the links of a process that has ended', async (t) => {
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

    t.test('aliases are found up to a limit, and so are their targets', async (t) => {
      const client = await startApp(t, env)
      const { alias } = callsOf(client)
      t.equal((await alias('ada', 'b')).statusCode, 200)
      t.equal((await alias('grace', 'a')).statusCode, 200)
      t.equal((await alias('ada', 'c')).statusCode, 200)
      const { shards, close } = await openStore(client.config)
      t.teardown(() => close())
      const aliases = new Aliases({ shards } as unknown as AliasesOptions)
      // More names than one query returns.
      const names = ['grace', ...Array.from({ length: 1_000 }, (_, i) => `nobody ${i}`), 'ada']
      const find = async (limit?: number) =>
        (await aliases.findAliases(DEFAULT_PROJECT, names, limit)).map(({ alias }) => alias)
      // It waits for the store.
      t.equal((await client.call('GET', '/public/users?limit=1')).statusCode, 200)
      t.strictSame(await find(), ['a', 'b', 'c'])
      t.strictSame(await find(2), ['a', 'b'])
      t.strictSame(await find(1), ['a'])
      t.strictSame(await aliases.findTargets(DEFAULT_PROJECT, names), ['grace', 'ada'])
    })
  })
}

t.test('a project that makes new steps all the time does not block those of another', async (t) => {
  const settled: string[] = []
  // Each round finds as many new names, as if somebody linked users without pause.
  const aliases = {
    listSteps: async (projectId: string) => (settled.includes('quiet') && projectId === 'quiet' ? [] : STEPS),
    findAliases: async (_projectId: string, _names: readonly string[], limit = 5_000) =>
      Array.from({ length: Math.min(limit, 5_000) }, (_, i) => ({ alias: `name ${i}`, distinctId: 'step' })),
    findTargets: async () => ['step'],
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
  await until('the busy one to continue', () => settled.slice(before).includes('busy'))
})

t.test('names of a project with many are read in parts, and none is missed', async (t) => {
  const settled = new Set<string>()
  const all = Array.from({ length: 5_000 }, (_, i) => ({ alias: `name ${i}`, distinctId: 'step' }))
  let read = 0
  const ended: string[] = []
  const aliases = {
    listSteps: async () => (ended.length > 0 ? [] : STEPS),
    findAliases: async (_projectId: string, _names: readonly string[], limit = all.length) => {
      const found = all.filter(({ alias }) => !settled.has(alias)).slice(0, limit)
      read += found.length
      return found
    },
    findTargets: async () => (settled.size < all.length ? ['step'] : []),
    settle: async (_projectId: string, names: readonly string[]) => {
      for (const name of names) settled.add(name)
    },
  }
  const settling = new AliasSettling({
    aliases,
    states: {
      change: async (_projectId: string, alias: string) => {
        t.equal(settled.size, all.length, 'a step ends after its last name')
        ended.push(alias)
      },
    },
    barrier: { requireProject: async () => 0n },
    shards: new Shards([]),
    log: { warn: (fields: object) => t.fail(JSON.stringify(fields)) },
  } as unknown as AliasSettlingOptions)
  t.teardown(() => settling.close())
  await settling.settle('p')
  t.equal(read, all.length, 'each is read once')
  t.strictSame(ended, ['step'])
})
