import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import type { Cohort } from '../../src/contract/questions.js'
import { Questions } from '../../src/questions/run.js'
import { NEEDLESS_REWRITES } from '../../src/questions/server-settings.js'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, startApp, until } from '../helper.js'

const EVENTS = 1_000_000

let url = ''
const settings = {
  PUBLIC_API_KEY: PUBLIC_KEY,
  SECRET_KEY,
  LOG_LEVEL: 'silent',
  QUERY_TIMEOUT: '60',
  QUERY_MEMORY: String(64 << 20),
  FACTS: 'off',
}
const { app, call } = await startApp(
  t as never,
  { ...settings, DATA_DIR: await dataFolder(t) },
  {
    onClickHouse: (found) => {
      url = found
    },
    load: { isShort: false },
  },
)
await app.listen({ port: 0 })
const clickhouse = new ClickHouse({ url })
t.teardown(() => clickhouse.close())

t.before(async () => {
  await until('the tables', async () => (await call('GET', '/public/events')).statusCode === 200)
  await clickhouse.command(`
    INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id)
    SELECT 'default', reinterpret(bitOr(bitShiftLeft(toUInt128(number), 64), toUInt128(1)), 'UUID'), 'a', toString(number),
      1760000000000 + number, 0, concat('{"n":', toString(number), '}'), ''
    FROM numbers(${EVENTS})`)
})

/** Takes seconds, but little memory. */
const LONG = {
  kind: 'series',
  series: [{ event: 'a' }],
  from: '2025-10-01',
  to: '2025-11-01',
  where: ['or', Array.from({ length: 90 }, (_, i) => ['matches', 'distinct_id', `${i}(.?){30}x+y*${i}$`])],
}

/** Patterns that RE2 tests slowly, each at its own: `x` is in none of the names. */
const SLOW = {
  ...LONG,
  where: ['matches', 'distinct_id', Array.from({ length: 20 }, (_, i) => `^([0-9]?[0-9]?){${200 + i}}[^0]$`)],
}

const running = async () => {
  const rows = await clickhouse.rows<{ id: string; nice: string; threads: string }>(
    `SELECT query_id AS id, Settings['os_threads_nice_value_query'] AS nice, Settings['max_threads'] AS threads FROM system.processes WHERE query LIKE '%AS mask%' AND query NOT LIKE '%system.processes%'`,
  )
  return rows
}

/** A call that can be disconnected. */
function ask(question: object) {
  const { port } = app.server.address() as AddressInfo
  const headers = { 'x-api-key': SECRET_KEY, 'content-type': 'application/json' }
  const call = request({ port, path: '/public/query', method: 'POST', headers })
  call.on('error', () => {})
  const status = new Promise<number | undefined>((resolve) => {
    call.on('response', (response) => {
      response.resume().on('end', () => resolve(response.statusCode))
    })
    call.on('close', () => resolve(undefined))
  })
  call.end(JSON.stringify(question))
  return { status, hangUp: () => call.destroy() }
}

t.test('runs two questions of a project at a time, and ends them when the client disconnects', async (t) => {
  const three = [ask(LONG), ask(LONG), ask(LONG)]
  const two = await until('two questions', async () => {
    const rows = await running()
    return rows.length === 2 && rows
  })
  t.strictSame(
    two.map(({ nice }) => nice),
    ['15', '15'],
  )
  t.equal((await running()).length, 2)
  three[0]?.hangUp()
  const ids = two.map(({ id }) => id)
  await until('the third', async () => (await running()).some(({ id }) => !ids.includes(id)))
  for (const { hangUp } of three) hangUp()
  await until('no question', async () => (await running()).length === 0)
})

t.test('runs one question of a project at a time, with one thread, while the service is busy', async (t) => {
  const load = { isShort: true }
  const questions = new Questions({
    shards: Shards.of(clickhouse),
    barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
    aliases: { hasAny: async () => false },
    limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: 1 << 30 },
    load,
  })
  const ask = (project: string) => {
    const hungUp = new AbortController()
    const ended = questions.ask(project, SLOW, hungUp.signal).catch(() => undefined)
    return { ended, hangUp: () => hungUp.abort() }
  }
  const first = ask('default')
  const [before] = await until('the first', async () => {
    const rows = await running()
    return rows.length === 1 && rows
  })
  const rest = [ask('default'), ask('default')]
  await clickhouse.rows('SELECT 1')
  const now = await running()
  t.strictSame([now.length, now[0]?.threads], [1, '1'])
  // Waiting questions get the free slots once the thread is not busy any more.
  load.isShort = false
  first.hangUp()
  await until('both others', async () => {
    const rows = await running()
    return rows.length === 2 && rows.every((row) => row.id !== before?.id && row.threads !== '1')
  })
  for (const { hangUp } of rest) hangUp()
  await Promise.all([first, ...rest].map(({ ended }) => ended))
  await until('no question', async () => (await running()).length === 0)
})

t.test('a disconnect ends a question that waits for a late store, and the next one gets its turn', async (t) => {
  let waits = 0
  const questions = new Questions({
    shards: Shards.of(clickhouse),
    barrier: {
      waitForProject: () => {
        waits++
        return new Promise(() => undefined)
      },
    },
    aliases: { hasAny: async () => false },
    limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: 1 << 30 },
    load: { isShort: false },
  })
  const [first, second] = [new AbortController(), new AbortController()]
  const two = [1, 2].map(() => t.rejects(questions.ask('late', LONG, first.signal)))
  const third = t.rejects(questions.ask('late', LONG, second.signal))
  await clickhouse.rows('SELECT 1')
  t.equal(waits, 2)
  first.abort()
  await until('the third', () => waits === 3)
  second.abort()
  await Promise.all([...two, third])
})

t.test('patterns with large repetitions leave nothing running after a disconnect', async () => {
  const two = [ask(SLOW), ask(SLOW)]
  await until('two questions', async () => (await running()).length === 2)
  for (const { hangUp } of two) hangUp()
  await until('no question', async () => (await running()).length === 0, 20_000)
})

t.test('the slot of a question that takes too long is free when ClickHouse has ended it', async (t) => {
  const questions = new Questions({
    shards: Shards.of(clickhouse),
    barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
    aliases: { hasAny: async () => false },
    limits: { QUERY_TIMEOUT: 1, QUERY_MEMORY: 1 << 30 },
    load: { isShort: true },
  })
  const { signal } = new AbortController()
  const hungUp = new AbortController()
  const left = questions.ask('default', { ...SLOW, series: [{ event: 'a', name: 'left' }] }, hungUp.signal)
  await until('the question', async () => (await running()).length === 1)
  hungUp.abort()
  await t.rejects(left)
  const next = questions.ask('default', SLOW, signal)
  let most = 0
  const looking = setInterval(async () => {
    most = Math.max(most, (await running()).length)
  }, 20)
  await t.rejects(next, { code: 'query_too_large', message: /more than 1 s/ })
  clearInterval(looking)
  t.equal(most, 1, 'one at a time')
  await until('no question', async () => (await running()).length === 0, 20_000)
})

t.test('refuses patterns whose repetitions are too large, without asking ClickHouse', async (t) => {
  const where = ['matches', 'distinct_id', Array.from({ length: 20 }, (_, i) => `(.?){1000}x${i}`)]
  const response = await call('POST', '/public/query', { ...LONG, where })
  t.match([response.statusCode, response.json().code], [422, 'query_too_large'])
  t.match(response.json().error, /smaller repetitions/)
  const words = Array.from({ length: 100 }, (_, i) => `word${i}`)
  const many = await call('POST', '/public/query', { ...LONG, where: ['matches', 'distinct_id', [...words, '^7$']] })
  t.equal(many.json().results?.[0]?.total, 1)
})

t.test('refuses a question that would take too much memory, and says what to narrow', async (t) => {
  const question = { ...LONG, where: null, breakdown: ['distinct_id', 'properties.n'] }
  const response = await call('POST', '/public/query', question)
  t.equal(response.statusCode, 422)
  t.equal(response.json().code, 'query_too_large')
  t.match(response.json().error, /64 MiB.*shorter time/)
})

t.test('ranks as many values as the memory holds', async (t) => {
  const question = { ...LONG, where: null, breakdown: ['distinct_id'], interval: 'none', limit: 2 }
  const ask = async (memory: number) => {
    const questions = new Questions({
      shards: Shards.of(clickhouse),
      barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
      aliases: { hasAny: async () => false },
      limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: memory },
    })
    return await questions.ask('default', question, new AbortController().signal)
  }
  const { results } = await ask(2 ** 31)
  t.strictSame(
    (results as { breakdown: unknown[]; total: number }[]).map(({ breakdown, total }) => [breakdown[0], total]),
    [
      ['0', 1],
      ['1', 1],
      ['$other', EVENTS - 2],
    ],
  )
  await t.rejects(ask(64 << 20), { code: 'query_too_large', message: /64 MiB/ })
})

t.test('counts returning users within the available memory', async (t) => {
  const DAYS = 4
  const [start, day] = [Date.parse('2025-10-06T00:00:00Z'), 86_400_000]
  // Each day, one more user comes back, all day long.
  await clickhouse.command(`
    INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id)
    SELECT 'returns', reinterpret(bitOr(bitShiftLeft(toUInt128(number), 64), toUInt128(1)), 'UUID'), 'a', concat('u', toString(user)),
      ${start} + intDiv(number * ${day}, 1000000), 0, '{}', ''
    FROM (SELECT number, number % (1 + intDiv(number, 1000000)) AS user FROM numbers(${DAYS * 1_000_000}))`)
  const statements: string[] = []
  const rows: ClickHouse['rows'] = async (query, ...rest) => {
    if (query.includes('AS mask')) statements.push(query)
    return await clickhouse.rows(query, ...rest)
  }
  const ask = async (memory: number, question: object) => {
    statements.length = 0
    const questions = new Questions({
      shards: Shards.of(Object.assign(Object.create(clickhouse), { rows })),
      barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
      aliases: { hasAny: async () => false },
      limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: memory },
    })
    const { results } = await questions.ask('returns', question, new AbortController().signal)
    return { results, asked: statements.length }
  }
  const range = { from: '2025-10-06', to: '2025-10-10' }
  const of = {
    kind: 'retention',
    start: { event: 'a' },
    return: { event: 'a' },
    unit: 'day',
    intervals: DAYS,
    ...range,
  }
  const list = { kind: 'users', of, cell: { cohort: '2025-10-06', interval: 3 }, limit: 10 }
  for (const question of [of, list]) {
    const [ample, little] = [await ask(2 ** 30, question), await ask(64 << 20, question)]
    t.strictSame([ample.asked, little.asked], [1, 2], question.kind)
    t.strictSame(little.results, ample.results)
  }
  const { results } = await ask(64 << 20, of)
  const sizes = (results as Cohort[]).map(({ size, cells }) => [size, ...cells.map(({ users }) => users)])
  t.strictSame(sizes, [
    [1, 1, 1, 1, 1],
    [1, 1, 1, 1, 0],
    [1, 1, 1, 0, 0],
    [1, 1, 0, 0, 0],
  ])
})

t.test('ends a question that takes too long, and says so', async (t) => {
  const questions = new Questions({
    shards: Shards.of(clickhouse),
    barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
    aliases: { hasAny: async () => false },
    limits: { QUERY_TIMEOUT: 1, QUERY_MEMORY: 1 << 30 },
    load: { isShort: true },
  })
  const { signal } = new AbortController()
  await t.rejects(questions.ask('default', LONG, signal), { code: 'query_too_large', message: /more than 1 s/ })
  // The project has its slots back.
  const short = { ...LONG, where: null, breakdown: null, series: [{ event: 'none' }] }
  // On a busy machine, a short question takes longer than its second, too.
  const answered = await until('an answer', () => questions.ask('default', short, signal).catch(() => undefined))
  t.match(answered.results, [{ total: 0 }])
})

t.test('accepts long questions, and refuses those that are too long', async (t) => {
  const ask = async (question: object) => {
    const rare = { ...LONG, series: [{ event: 'none' }], where: null, ...question }
    const response = await call('POST', '/public/query', rare)
    return [response.statusCode, response.json().code]
  }
  const texts = Array.from({ length: 150 }, (_, i) => `x${i}`)
  t.strictSame(await ask({ where: ['starts_with', 'properties.n', texts] }), [200, undefined])
  // Days of different lengths: each has its own start.
  t.strictSame(await ask({ from: '2000-01-01', to: '2027-01-01', timezone: 'Europe/Vienna' }), [200, undefined])
  const of = { ...LONG, series: [{ event: 'none' }], where: null, breakdown: ['event'] }
  const cell = { breakdown: ['\u{1f600}'.repeat(40_000)] }
  t.strictSame(await ask({ kind: 'users', of, cell, limit: 1 }), [200, undefined])
  const is = (i: number) => ['is', `properties.p${i}`, Array(4).fill('x'.repeat(2000 + i))]
  t.strictSame(await ask({ where: ['or', Array.from({ length: 99 }, (_, i) => is(i))] }), [422, 'query_too_large'])
})

t.test('refuses more different properties than ClickHouse analyzes in reasonable time', async (t) => {
  const is = (i: number) => ['is', i % 2 ? `properties.p${i}` : `user.p${i}`, [i]]
  const ask = async (count: number) => {
    const where = ['or', Array.from({ length: count }, (_, i) => is(i))]
    return await call('POST', '/public/query', { ...LONG, series: [{ event: 'none' }], where })
  }
  t.equal((await ask(32)).statusCode, 200)
  const refused = await ask(33)
  t.match([refused.statusCode, refused.json().code, refused.json().error], [422, 'query_too_large', /properties/])
})

t.test('names the regular expressions that RE2 refuses', async (t) => {
  for (const pattern of ['(', 'a{1001}', '(?=a)', '\\']) {
    const where = ['matches', 'distinct_id', ['fine', pattern]]
    const response = await call('POST', '/public/query', { ...LONG, where })
    t.equal(response.statusCode, 400, pattern)
    t.strictSame(
      response.json().details?.map(({ path }: { path: string }) => path),
      ['/where/2/1'],
    )
  }
})

t.test('an answer with many long texts in every bucket is too long', async (t) => {
  await clickhouse.command(`
    INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties, insert_id)
    SELECT 'texts', reinterpret(bitOr(bitShiftLeft(toUInt128(number), 64), toUInt128(1)), 'UUID'), 'a', 'u',
      86400000 * (number % 30), 0, concat('{"text":"', toString(intDiv(number, 30)), repeat('x', 200000), '"}'), ''
    FROM numbers(900)`)
  const questions = new Questions({
    shards: Shards.of(clickhouse),
    barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
    aliases: { hasAny: async () => false },
    limits: { QUERY_TIMEOUT: 300, QUERY_MEMORY: 2 ** 31 },
  })
  const ask = (limit: number) => {
    const question = {
      kind: 'series',
      series: [{ event: 'a' }],
      breakdown: ['properties.text'],
      limit,
      from: 0,
      to: '1970-01-31',
    }
    return questions.ask('texts', question, new AbortController().signal)
  }
  t.equal(((await ask(2)).results as unknown[]).length, 3)
  await t.rejects(ask(30), { code: 'query_too_large', message: /^The answer to the question is too large\. / })
})

t.test('ClickHouse has the settings of the rewrites that questions turn off', async (t) => {
  const names = NEEDLESS_REWRITES
  const found = await clickhouse.rows<{ name: string }>(
    'SELECT name FROM system.settings WHERE name IN {names:Array(String)}',
    { names },
  )
  t.strictSame(found.map(({ name }) => name).toSorted(), names.toSorted(), 'otherwise they would silently stay on')
})
