import t from 'tap'
import { formatExactJson } from '../../src/contract/exact-json.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import type { FunnelLine } from '../../src/contract/questions.js'
import { type Course, selectFurthestEntries } from '../../src/questions/funnel-entries.js'
import { Statement } from '../../src/questions/statement.js'
import { openStore } from '../../src/store/open.js'
import { newProject, type Project } from '../shared-app.js'

const DAY = 86_400_000
const FROM = Date.parse('2026-03-01T00:00:00Z')

let shared: Promise<Project> | undefined
const project = () => {
  shared ??= newProject()
  return shared
}

/** By user: events as `name@ms` or `name@ms=plan`, in the order of their ids. */
type Journeys = Record<string, string>

let count = 0
/** Sends journeys under unique names, so that tests can share a project. @returns fields for questions about them */
async function send(...all: Journeys[]) {
  const sent = all.map((journeys) => {
    const prefix = `t${count++}-`
    const events = Object.entries(journeys).flatMap(([distinct_id, journey]) =>
      journey.split(' ').map((text) => {
        const [, event = '', ms, plan] = /^(\w+)@(-?\d+)(?:=(\w+))?$/.exec(text) ?? []
        return { event: prefix + event, distinct_id, timestamp: FROM + Number(ms), properties: plan ? { plan } : {} }
      }),
    )
    return { prefix, events }
  })
  await (await project()).call('POST', '/public/track/batch', { events: sent.flatMap(({ events }) => events) })
  return sent.map(({ prefix }) => prefix)
}

const range = { from: '2026-03-01', to: '2026-03-02', window: '1s' }

async function ask(prefix = '', question: object) {
  const body = formatExactJson({ kind: 'funnel', ...range, ...question })
  const response = await (await project()).call(
    'POST',
    '/public/query',
    body.replaceAll('"event":"', `"event":"${prefix}`),
  )
  if (response.statusCode !== 200) throw new Error(response.body)
  return response.json().results
}

async function funnelOf(journeys: Journeys, question: object): Promise<FunnelLine[]> {
  const [prefix] = await send(journeys)
  return await ask(prefix, question)
}

/** How many reached each step, and the median times to it. */
function summary(lines: FunnelLine[]) {
  return lines.map(({ breakdown, steps }) => [
    ...breakdown,
    steps.map(({ users }) => users).join(' '),
    steps.map(({ median_ms }) => median_ms ?? '-').join(' '),
  ])
}

const steps = (names: string) => [...names].map((event) => ({ event }))

t.test('each user counts with the furthest entry', async (t) => {
  const lines = await funnelOf(
    { ann: 'a@0 b@10 c@30', bob: 'a@0 c@10 b@20', cid: 'b@0 a@5', dan: 'b@0', $anonymous: 'a@0 b@1 c@2' },
    { steps: steps('abc') },
  )
  t.strictSame(lines, [
    {
      breakdown: [],
      steps: [
        { users: 3, of_first: 1, of_previous: 1, median_ms: null, mean_ms: null },
        { users: 2, of_first: 2 / 3, of_previous: 2 / 3, median_ms: 15, mean_ms: 15 },
        { users: 1, of_first: 1 / 3, of_previous: 1 / 2, median_ms: 30, mean_ms: 30 },
      ],
      complete: true,
    },
  ])
})

t.test('without users there is one line of zeros', async (t) => {
  const none = { users: 0, median_ms: null, mean_ms: null }
  t.strictSame(await funnelOf({ ann: 'b@0' }, { steps: steps('ab') }), [
    {
      breakdown: [],
      steps: [
        { ...none, of_first: 1, of_previous: 1 },
        { ...none, of_first: 0, of_previous: 0 },
      ],
      complete: true,
    },
  ])
  t.strictSame(await funnelOf({ ann: 'b@0' }, { steps: steps('ab'), breakdown: ['properties.plan'] }), [])
})

t.test('orders and times of steps', async (t) => {
  const cases: [what: string, journey: string, question: object, reached: number, times?: string][] = [
    ['simultaneous steps count in the order of their ids', 'a@0 b@0 c@0', { steps: steps('abc') }, 3, '- 0 0'],
    ['and not against it', 'b@0 a@0 c@0', { steps: steps('abc') }, 1],
    ['times come before ids', 'b@5 a@0', { steps: steps('ab') }, 2],
    ['an event is one step only', 'a@0', { steps: steps('aa') }, 1],
    ['a repeated step needs as many events', 'a@0 a@0 a@9', { steps: steps('aaa') }, 3, '- 0 9'],
    ['the window is inclusive', 'a@0 b@1000', { steps: steps('ab') }, 2],
    ['and ends', 'a@0 b@1001', { steps: steps('ab') }, 1],
    ['it counts from the entry', 'a@0 b@600 c@1100', { steps: steps('abc') }, 2],
    ['a later entry may get further', 'a@0 a@500 b@600 c@1100', { steps: steps('abc') }, 3, '- 100 600'],
    ['the earliest of the furthest counts', 'a@0 b@50 a@100 b@110', { steps: steps('ab') }, 2, '- 50'],
    ['each step is the next event of it', 'a@0 b@10 b@20 c@30', { steps: steps('abc') }, 3, '- 10 30'],
    ['entries are in the range', `a@-1 b@1 c@2`, { steps: steps('abc') }, 0],
    ['steps may be after it', `a@${DAY - 1} b@${DAY + 999}`, { steps: steps('ab') }, 2],
    ['entries may not', `a@${DAY} b@${DAY + 1}`, { steps: steps('ab') }, 0],
    ['strict ends at another step', 'a@0 c@1 b@2', { steps: steps('abc'), order: 'strict' }, 1],
    ['also at the same', 'a@0 a@1 c@2', { steps: steps('abc'), order: 'strict' }, 1],
    ['but a later entry counts', 'a@0 a@1 b@2 c@3', { steps: steps('abc'), order: 'strict' }, 3, '- 1 2'],
    ['strict ignores other events', 'a@0 x@1 b@2', { steps: steps('ab'), order: 'strict' }, 2],
    ['strict repeats', 'a@0 a@1 b@2', { steps: steps('aab'), order: 'strict' }, 3],
    ['any begins with any step', 'c@0 a@1 b@2', { steps: steps('abc'), order: 'any' }, 3, '- 1 2'],
    ['any counts a step once', 'b@0 b@1 a@2', { steps: steps('abc'), order: 'any' }, 2, '- 2 -'],
    ['any takes repeated steps one by one', 'b@0 a@1 a@2', { steps: steps('aba'), order: 'any' }, 3, '- 1 2'],
    ['any ends with the window of the first', 'b@0 c@900 a@1001', { steps: steps('abc'), order: 'any' }, 2],
    ['any takes a later entry', 'b@0 c@900 a@1001 b@1100', { steps: steps('abc'), order: 'any' }, 3, '- 101 200'],
    ['an excluded event ends the entry', 'a@0 x@1 b@2', { steps: steps('ab'), exclude: [{ event: 'x', after: 1 }] }, 1],
    ['only after its step', 'a@0 x@1 b@2 c@3', { steps: steps('abc'), exclude: [{ event: 'x', after: 2 }] }, 3],
    ['up to the next', 'a@0 b@1 c@2 x@3 b@4', { steps: steps('abc'), exclude: [{ event: 'x', after: 2 }] }, 3],
    ['also of later steps', 'a@0 b@1 x@2 b@3 c@4', { steps: steps('abc'), exclude: [{ event: 'x', after: 2 }] }, 2],
    ['a step is not excluded', 'a@0 b@1', { steps: steps('ab'), exclude: [{ event: 'b', after: 1 }] }, 2],
    [
      'any is excluded by the count',
      'b@0 a@1 x@2 c@3',
      { steps: steps('abc'), order: 'any', exclude: [{ event: 'x', after: 2 }] },
      2,
    ],
  ]
  // Those with the same question are asked together, with a line for each user.
  const questions = [...new Set(cases.map(([, , question]) => JSON.stringify(question)))]
  const alike = questions.map((text) => cases.filter(([, , question]) => JSON.stringify(question) === text))
  const prefixes = await send(
    ...alike.map((some) => Object.fromEntries(some.map(([what, journey]) => [what, journey]))),
  )
  for (const [i, some] of alike.entries()) {
    const question = { ...some[0]?.[2], breakdown: ['distinct_id'], limit: 100 }
    const lines: FunnelLine[] = await ask(prefixes[i], question)
    for (const [what, , , reached, times] of some) {
      const line = lines.find(({ breakdown }) => breakdown[0] === what)
      t.equal(line?.steps.filter(({ users }) => users === 1).length ?? 0, reached, what)
      if (times) t.equal(line?.steps.map(({ median_ms }) => median_ms ?? '-').join(' '), times, what)
    }
  }
})

t.test('an event that matches several steps counts for the first one that is not done', async (t) => {
  const paid = { event: 'a', where: ['is', 'properties.plan', ['pro']] }
  const journeys = { ann: 'a@0 a@1=pro', bob: 'a@0=pro a@1', cid: 'a@0=pro a@1=pro' }
  t.strictSame(summary(await funnelOf(journeys, { steps: [...steps('a'), paid], order: 'any' })), [['3 2', '- 1']])
  t.strictSame(summary(await funnelOf(journeys, { steps: [paid, ...steps('a')], order: 'any' })), [['3 3', '- 1']])
  t.strictSame(summary(await funnelOf(journeys, { steps: [...steps('a'), paid] })), [['3 2', '- 1']])
})

t.test('filters that differ only in an infinite number are different', async (t) => {
  const { POSITIVE_INFINITY: above, NEGATIVE_INFINITY: below } = Number
  const isBefore = (field: string, number: number) => ['lt', field, number]
  const isBetween = (test: (number: number) => unknown) => ['and', [test(above), ['not', test(below)]]]
  const has = (where: unknown) => ['session_has', { event: 'a', where }]
  const where = [
    isBetween((number) => has(isBefore('timestamp', number))),
    has(isBetween((number) => isBefore('session.start', number))),
  ]
  const lines = await funnelOf(
    { ann: 'a@0 a@1' },
    {
      steps: [
        { event: 'a', where: isBefore('timestamp', above) },
        { event: 'a', where: ['and', where] },
        { event: 'a', where: isBefore('timestamp', below) },
      ],
      sessions: { gap: '1h' },
    },
  )
  t.strictSame(summary(lines)[0]?.[0], '1 1 0')
})

t.test("the breakdown is that of the entry's event", async (t) => {
  const journeys = {
    ann: 'a@0=pro a@100=free b@110=team',
    bob: 'a@0=pro b@2000',
    cid: 'a@0=pro b@20',
    dan: 'a@0=free',
    eve: 'a@0 b@1',
    fay: 'a@0=team b@7 b@8',
    gus: 'a@0=other b@9',
  }
  const question = { steps: steps('ab'), breakdown: ['properties.plan'] }
  t.strictSame(summary(await funnelOf(journeys, question)), [
    ['pro', '3 2', '- 65'],
    ['free', '1 0', '- -'],
    ['other', '1 1', '- 9'],
    ['team', '1 1', '- 7'],
    [null, '1 1', '- 1'],
  ])
  t.strictSame(summary(await funnelOf(journeys, { ...question, limit: 2 })), [
    ['pro', '3 2', '- 65'],
    ['free', '1 0', '- -'],
    ['$other', '3 3', '- 7'],
  ])
})

t.test('the users of a cell are the users that it counts', async (t) => {
  const journeys = {
    ann: 'a@0=pro b@1',
    bob: 'a@0=pro',
    cid: 'a@0 b@1 c@2',
    dan: 'a@0=free b@1',
    eve: 'a@0=team',
    fay: 'b@0',
  }
  const of = { steps: steps('abc'), breakdown: ['properties.plan'], limit: 1 }
  const [prefix] = await send(journeys)
  const usersOf = async (cell: object, question: object = of) => {
    const { users, count } = await ask(prefix, { kind: 'users', of: { ...range, kind: 'funnel', ...question }, cell })
    t.equal(count, users.length)
    return users.join(' ')
  }
  const all = { ...of, breakdown: [] }
  t.equal(await usersOf({ step: 1 }, all), 'ann bob cid dan eve')
  t.equal(await usersOf({ step: 2 }, all), 'ann cid dan')
  t.equal(await usersOf({ step: 2, dropped: true }, all), 'bob eve')
  t.equal(await usersOf({ step: 1, breakdown: ['pro'] }), 'ann bob')
  t.equal(await usersOf({ step: 2, breakdown: ['pro'], dropped: true }), 'bob')
  t.equal(await usersOf({ step: 1, breakdown: [null] }), 'cid')
  t.equal(await usersOf({ step: 2, breakdown: ['$other'] }), 'cid dan')
})

t.test('a user with several names counts once', async (t) => {
  await (await project()).call('POST', '/public/users/alias', { distinct_id: 'u1', alias: 'u2' })
  await (await project()).call('POST', '/public/users/alias', { distinct_id: 'u0', alias: 'u1' })
  const journeys = { u2: 'a@0=pro', u1: 'b@10', u0: 'c@20', else: 'a@5 b@6' }
  const question = { steps: steps('abc') }
  t.strictSame(summary(await funnelOf(journeys, question)), [['2 2 1', '- 5.5 20']])
  const broken = { ...question, breakdown: ['properties.plan'], limit: 1 }
  t.strictSame(summary(await funnelOf(journeys, broken)), [
    ['pro', '1 1 1', '- 10 20'],
    ['$other', '1 1 0', '- 1 -'],
  ])
})

t.test('the answer is complete once the last window is over', async (t) => {
  const complete = async (to: number) =>
    (await funnelOf({ ann: 'a@0' }, { steps: steps('ab'), to, window: '1h' }))[0]?.complete
  t.equal(await complete(Date.now()), false)
  t.equal(await complete(Date.now() - 3_600_001), true)
})

t.test('a user with 100 000 events stays within the limits of time and memory', async (t) => {
  const limits = { max_execution_time: 30, max_memory_usage: String(1024 ** 3) }
  const all = Array.from({ length: 8 }, (_, k) => k)
  const course: Course = {
    events: `(SELECT 'bot' AS user, 1.7e12 + intDiv(number, 50) AS timestamp, toUInt128(number) AS id,
      bitShiftLeft(toUInt64(1), number * 7919 % 8) AS mask FROM numbers(100000))`,
    steps: all,
    excluded: all.map(() => []),
    rivals: all.map((k) => all.slice(0, k)),
    order: 'ordered',
    window: '604800000',
    to: '1e13',
    hasBreakdown: false,
    isByTime: false,
  }
  const { clickhouse, shards, close } = await openStore((await project()).config)
  t.teardown(close)
  const context = { projectId: 'p', now: 0, shards, hasAliases: false, repairsTexts: false, pages: DEFAULT_SETTINGS }
  for (const order of ['ordered', 'strict', 'any'] as const) {
    const sql = `SELECT * FROM ${selectFurthestEntries(new Statement(context), { ...course, order })}`
    const [row] = await clickhouse.rows<{ since: number[] }>(sql, {}, limits)
    t.equal(row?.since.length, order === 'strict' ? 1 : 8, order)
  }
})
