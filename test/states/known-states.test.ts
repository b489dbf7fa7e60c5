import fc from 'fast-check'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { GroupCommit } from '../../src/ingest/group-commit.js'
import type { Journal } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { openRedisRelocation } from '../../src/journal/redis/relocation.js'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { ByteBudget } from '../../src/lib/byte-budget.js'
import type { Position } from '../../src/model/position.js'
import { toStateKey } from '../../src/model/state-key.js'
import { KnownStates } from '../../src/states/known-states.js'
import { StateStore } from '../../src/states/state-store.js'
import type { StateTable, StoredKeys } from '../../src/store/tables.js'
import { settingsFor, silent, startApp, startRedis, temporaryFolder, until } from '../helper.js'

const MAX_BYTES = 8 * 1024 * 1024
const MINUTE = 60_000
/** Pause before a read that came too early is repeated, ms. */
const WAITING_MS = 1_000

/**
 * A journal with a clock that the test moves, and a store that receives only what the test stores.
 * @param other default: a journal in LMDB
 */
async function setUp(t: Test, other?: Journal) {
  const clock = { now: Date.now(), monotonic: 0 }
  const options = { maxBytes: MAX_BYTES, now: () => clock.now }
  const journal = other ?? (await openLmdbJournal({ ...options, path: await temporaryFolder(t) }))
  const stored = new Map<string, { version: Position; value: number }>()
  const seen = { reads: 0, keys: [] as Position[], isDown: false, beforeCount: async () => {} }
  const table: StateTable<number> & StoredKeys = {
    kind: 'profiles',
    format: String,
    parse: Number,
    countBytes: () => 1,
    row: (_project, name, value) => JSON.stringify({ name, value }),
    read: async (_project, names) => {
      seen.reads++
      if (seen.isDown) throw new Error('the store is down')
      return new Map(
        names
          .flatMap((name) => [[name, stored.get(name)] as const])
          .flatMap(([name, found]) => {
            return found ? [[name, { ...found, bytes: 1 }] as const] : []
          }),
      )
    },
    count: async () => {
      await seen.beforeCount()
      return stored.size
    },
    stateKeys: async (after) => {
      seen.keys.push(after)
      if (seen.isDown) throw new Error('the store is down')
      const later = [...stored].filter(([, { version }]) => version > after)
      return chunks(later.map(([name]) => Buffer.from(toStateKey('profiles', 'p', name).slice(32), 'hex')))
    },
  }
  const commits: GroupCommit[] = []
  t.teardown(async () => {
    for (const commit of commits) await commit.close()
    await journal.close()
  })
  /** the states as another process would open them */
  const process = (maxStates?: number) => {
    const commit = new GroupCommit(journal, new BufferPool())
    commits.push(commit)
    const known = new KnownStates(journal, table, silent, {
      now: () => clock.monotonic,
      ...(maxStates !== undefined && { maxStates }),
    })
    const states = new StateStore(journal, commit, table, {
      maxBytes: MAX_BYTES,
      memory: new ByteBudget(MAX_BYTES),
      turns: { take: () => null },
      known,
    })
    return { known, states, add: (name: string) => states.change('p', name, (value) => (value ?? 0) + 1) }
  }
  /** stores everything, like the writer */
  const store = async (deletes = false) => {
    for (let block = await journal.claim(MAX_BYTES); block; block = await journal.claim(MAX_BYTES)) {
      const states = block.entries.flatMap(({ position, body }) =>
        (JSON.parse(`[${body}]`) as { name: string; value: number }[]).map(({ name, value }) => {
          if (deletes) stored.delete(name)
          else stored.set(name, { version: position, value })
          return { stateKey: toStateKey('profiles', 'p', name), version: position }
        }),
      )
      await journal.acknowledge(block, states)
    }
  }
  const pass = (ms: number) => {
    clock.now += ms
    clock.monotonic += ms
  }
  return { clock, journal, stored, seen, process, store, pass }
}

/** Splits keys into chunks that end within keys. */
async function* chunks(keys: Buffer[]): AsyncGenerator<Buffer> {
  const bytes = Buffer.concat(keys)
  for (let start = 0; start < bytes.length; start += 50) yield bytes.subarray(start, start + 50)
}

/** Opens a process, and waits until it has read the store. */
async function knowing({ process }: Awaited<ReturnType<typeof setUp>>, maxStates?: number) {
  const one = process(maxStates)
  await one.states.get('p', 'nobody')
  await one.known.settled()
  return one
}

t.test('the store is not asked for a state that it never had', async (t) => {
  const it = await setUp(t)
  it.stored.set('old', { version: 1n, value: 7 })
  const one = await knowing(it)
  t.equal(it.seen.reads, 1, 'only before it was known')
  for (let i = 0; i < 100; i++) await one.add(`new-${i}`)
  t.equal(it.seen.reads, 1)
  t.equal(one.states.metrics.isNew, 100)
  await one.add('old')
  t.equal(await one.states.get('p', 'old'), 8)
  t.equal(it.seen.reads, 2)
})

t.test('states from another process are known once the journal has forgotten them', async (t) => {
  const it = await setUp(t)
  const one = await knowing(it)
  await it.process().add('a')
  await it.store()
  it.pass(11 * MINUTE)
  await it.process().add('b')
  await it.store()
  it.seen.keys = []
  t.equal((await it.journal.readStates([toStateKey('profiles', 'p', 'a')], 1)).states[0], null, 'it is forgotten')
  // The first call comes before anything else was read, the second one after it.
  t.equal(await one.states.get('p', 'a'), 1)
  await one.known.settled()
  t.equal(await one.states.get('p', 'a'), 1)
  t.equal(await one.states.get('p', 'c'), null)
  t.equal(one.states.metrics.isNew, 1, 'only the last')
  t.equal(it.seen.keys.length, 1)
  t.ok((it.seen.keys[0] ?? 0n) > 0n, 'only the later rows were read')
})

t.test('the result is not trusted after a changed clock, a suspended machine or an unavailable store', async (t) => {
  for (const [what, change] of [
    ['forward', (clock: { now: number }) => (clock.now += 4 * MINUTE)],
    ['back', (clock: { now: number }) => (clock.now -= 4 * MINUTE)],
  ] as const) {
    const it = await setUp(t)
    const one = await knowing(it)
    change(it.clock)
    await one.states.get('p', 'x')
    t.equal(one.states.metrics.isNew, 0, what)
  }
  const it = await setUp(t)
  const one = await knowing(it)
  it.seen.isDown = true
  it.pass(MINUTE)
  t.equal(await one.states.get('p', 'x'), null, 'it is relied upon for a while')
  await one.known.settled()
  it.pass(3 * MINUTE)
  await t.rejects(one.states.get('p', 'y'), { message: 'the store is down' })
  await one.known.settled()
  it.seen.isDown = false
  it.pass(MINUTE)
  t.equal(await one.states.get('p', 'y'), null)
  await one.known.settled()
  t.equal(await one.states.get('p', 'z'), null)
  t.equal(one.states.metrics.isNew, 2)
})

t.test('after a loss of the journal, everything is read again', async (t) => {
  const it = await setUp(t)
  const seen: Position[] = []
  const journal = {
    era: 1,
    markStates: it.journal.markStates.bind(it.journal),
    progress: it.journal.progress.bind(it.journal),
  }
  const known = new KnownStates(
    journal,
    {
      count: async () => 0,
      stateKeys: async (after) => {
        seen.push(after)
        return chunks([])
      },
    },
    silent,
    { now: () => it.clock.monotonic },
  )
  const { mark } = await it.journal.markStates()
  const isNew = () => known.isNew(toStateKey('profiles', 'p', 'a'), { readAt: it.clock.now, mark })
  await it.process().add('x')
  await it.store()
  t.notOk(isNew())
  await known.settled()
  t.ok(isNew())
  journal.era++
  t.notOk(isNew())
  await known.settled()
  t.ok(isNew())
  t.same(seen, [0n, 0n])
})

/** Ways in which a journal loses its states, without a new era. */
const LOSSES: [string, (journal: Journal, redis: Redis, last: Position) => Promise<unknown>][] = [
  ['advancePast', (journal, _, last) => journal.advancePast(last)],
  ['FLUSHALL', (_, redis) => redis.flushall()],
  ['DEL of the states', async (_, redis) => redis.del(await redis.keys('*state:*'))],
]

for (const [what, lose] of LOSSES) {
  t.test(`states that vanish from Redis by ${what} are read from the store`, async (t) => {
    const { url } = await startRedis(t)
    const redis = new Redis(url)
    t.teardown(() => redis.disconnect())
    const journal = await openRedisJournal({ url, prefix: '{k}', maxBytes: MAX_BYTES, log: silent })
    await afterLoss(t, journal, (last) => lose(journal, redis, last))
  })
}

t.test('states that vanish from LMDB by advancePast are read from the store', async (t) => {
  const journal = await openLmdbJournal({ path: await temporaryFolder(t), maxBytes: MAX_BYTES })
  await afterLoss(t, journal, (last) => journal.advancePast(last))
})

/** One process knows the store, another one adds to it, and the journal loses the additions. */
async function afterLoss(t: Test, journal: Journal, lose: (last: Position) => Promise<unknown>) {
  const it = await setUp(t, journal)
  const one = await knowing(it)
  const other = it.process()
  await other.add('x')
  await other.add('x')
  await it.store()
  await lose(it.stored.get('x')?.version ?? 0n)
  await one.add('x')
  t.equal(await one.states.get('p', 'x'), 3)
  // Values that it read meanwhile count only if the states were marked before this change, which waits for the store.
  await one.known.settled()
  await it.store()
  it.pass(WAITING_MS)
  await one.states.get('p', 'stranger')
  await one.known.settled()
  const { isNew } = one.states.metrics
  await one.states.get('p', 'another stranger')
  t.equal(one.states.metrics.isNew, isNew + 1, 'it is known again')
}

t.test('a state that vanished before it was stored is known once it is', async (t) => {
  const { url } = await startRedis(t)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  const it = await setUp(t, await openRedisJournal({ url, prefix: '{k}', maxBytes: MAX_BYTES, log: silent }))
  const one = await knowing(it)
  await it.process().add('x')
  await redis.del(await redis.keys('*state:*'))
  await one.states.get('p', 'stranger')
  await one.known.settled()
  await it.store()
  await one.add('x')
  t.equal(await one.states.get('p', 'x'), 2)
})

t.test('a change of the layout resets what is known', async (t) => {
  const { url } = await startRedis(t)
  const it = await setUp(t, await openRedisJournal({ url, prefix: '{k}', maxBytes: MAX_BYTES, log: silent }))
  const one = await knowing(it)
  const relocation = await openRedisRelocation({ url, prefix: '{k}', log: silent })
  t.teardown(() => relocation.close())
  await it.process().add('x')
  await it.store()
  await relocation.closeIntake(2)
  await relocation.keepStates(() => false)
  for await (const states of relocation.states()) t.same(states, [])
  await relocation.open(2)
  t.equal(await one.states.get('p', 'x'), 1)
  await one.known.settled()
  t.equal(await one.states.get('p', 'x'), 1)
  t.equal(one.states.metrics.isNew, 0)
})

t.test('states that the process itself writes while the store is read are known', async (t) => {
  const { url } = await startRedis(t)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  const it = await setUp(t, await openRedisJournal({ url, prefix: '{k}', maxBytes: MAX_BYTES, log: silent }))
  const one = it.process()
  it.seen.beforeCount = async () => {
    it.seen.beforeCount = async () => {}
    await one.add('x')
  }
  await one.states.get('p', 'nobody')
  await one.known.settled()
  // Removed directly, without the mark, and before the store has it.
  await redis.del(`{k}:state:${toStateKey('profiles', 'p', 'x')}`)
  await it.store()
  await one.add('x')
  t.equal(await one.states.get('p', 'x'), 2)
})

t.test('rows that appear later with old versions are known after an hour', async (t) => {
  const it = await setUp(t)
  await it.process().add('y')
  await it.store()
  const kept = new Map(it.stored)
  it.stored.clear()
  it.pass(20 * MINUTE)
  await it.process().add('tick')
  await it.store()
  it.seen.keys = []
  const one = await knowing(it)
  for (const [name, row] of kept) it.stored.set(name, row)
  for (let minute = 0; minute <= 61; minute++) {
    it.pass(MINUTE)
    await one.states.get('p', `stranger-${minute}`)
    await one.known.settled()
  }
  await one.add('y')
  t.equal(await one.states.get('p', 'y'), 2)
  t.equal(it.seen.keys.filter((after) => after === 0n).length, 2)
})

t.test('if there are too many states, the store is queried for each', async (t) => {
  const it = await setUp(t)
  it.stored.set('a', { version: 1n, value: 1 })
  it.stored.set('b', { version: 2n, value: 1 })
  const one = await knowing(it, 1)
  await one.states.get('p', 'x')
  await one.known.settled()
  t.equal(one.states.metrics.isNew, 0)
  t.same(it.seen.keys, [])
})

t.test('the filter grows with the number of states', async (t) => {
  const it = await setUp(t)
  const one = await knowing(it)
  const before = one.known.bytes
  const version = (await it.journal.progress()).stored + 1n
  for (let i = 0; i < 150_000; i++) it.stored.set(`many-${i}`, { version, value: 1 })
  it.pass(MINUTE)
  await one.states.get('p', 'x')
  await one.known.settled()
  t.ok(one.known.bytes > before)
  const reading = { readAt: it.clock.now, mark: (await it.journal.markStates()).mark }
  const asked = Array.from({ length: 1000 }, (_, i) => toStateKey('profiles', 'p', `fresh-${i}`))
  t.ok(asked.filter((key) => one.known.isNew(key, reading)).length > 970)
  t.notOk(one.known.isNew(toStateKey('profiles', 'p', 'many-7'), reading))
})

t.test('whatever processes and clocks do, no added state is lost', async (t) => {
  const name = fc.integer({ min: 0, max: 5 }).map((i) => `user-${i}`)
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ add: name, by: fc.integer({ min: 0, max: 2 }) }) },
    { weight: 2, arbitrary: fc.constant('store' as const) },
    { weight: 1, arbitrary: fc.record({ settle: fc.integer({ min: 0, max: 2 }) }) },
    { weight: 1, arbitrary: fc.record({ restart: fc.integer({ min: 0, max: 2 }) }) },
    { weight: 3, arbitrary: fc.record({ pass: fc.constantFrom(1_000, 31_000, 2 * MINUTE, 4 * MINUTE, 11 * MINUTE) }) },
    { weight: 1, arbitrary: fc.record({ suspend: fc.constantFrom(31_000, 4 * MINUTE, 11 * MINUTE) }) },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const it = await setUp(t)
      const processes = [it.process(), it.process(), it.process()]
      const sums = new Map<string, number>()
      for (const step of steps) {
        if (step === 'store') await it.store()
        else if ('add' in step) {
          await processes[step.by]?.add(step.add)
          sums.set(step.add, (sums.get(step.add) ?? 0) + 1)
        } else if ('settle' in step) await processes[step.settle]?.known.settled()
        else if ('restart' in step) processes[step.restart] = it.process()
        else if ('suspend' in step) it.clock.now += step.suspend
        else it.pass(step.pass)
      }
      for (const [name, sum] of sums) {
        for (const { states } of processes) t.equal(await states.get('p', name), sum)
      }
    }),
    { numRuns: 25 },
  )
})

/** Ordinary names, and names that JSON and SQL may spell in different ways. */
const NAMES = [
  ...['\u0000', '\n', '\u007f', '"', '\\', '\\"', "it's", '\\u0000', '\u2028', '😀', '\u00e9', 'e\u0301', ' ', '],['],
  ...Array.from({ length: 6 }, (_, i) => `user-${i}`),
]

t.test('a service that starts on the data of another one, without its journal', async (t) => {
  const env = await settingsFor(t, 'servers')
  const first = await startApp(t, env)
  const add = async ({ call }: typeof first, distinct_id: string) => {
    const response = await call('POST', '/public/users/profile', { distinct_id, operations: { $add: { n: 1 } } })
    t.equal(response.statusCode, 200, response.body)
  }
  for (const name of NAMES) await add(first, name)
  await first.call('GET', '/public/users?limit=1')
  await first.app.close()
  // As after ten minutes.
  const redis = new Redis(env.REDIS_URL ?? '')
  // Without their mark, as they expire.
  const states = (await redis.keys('*:state:*')).filter((key) => !key.endsWith(':mark'))
  t.equal(states.length, NAMES.length)
  await redis.del(states)
  redis.disconnect()

  const second = await startApp(t, env)
  const readsFrom = async (source: string) => {
    const { body } = await second.call('GET', '/metrics')
    return Number(
      new RegExp(`^tallyhouse_state_reads_total\\{kind="profiles",source="${source}"\\} (\\d+)`, 'm').exec(body)?.[1],
    )
  }
  let strangers = 0
  await until('the states of the store to be known', async () => {
    await add(second, `stranger-${++strangers}`)
    return (await readsFrom('new')) > 0
  })
  const before = await readsFrom('new')
  for (const name of NAMES) await add(second, name)
  t.equal(await readsFrom('new'), before, 'none of them is new')
  await add(second, 'the last stranger')
  t.equal(await readsFrom('new'), before + 1)
  for (const name of NAMES) {
    const { body } = await second.call('GET', `/public/users/${encodeURIComponent(name)}`)
    t.match(JSON.parse(body), { user: { distinct_id: name, properties: { n: 2 } } })
  }
})
