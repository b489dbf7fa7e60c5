import t from 'tap'
import { newProject, type Project } from '../shared-app.js'

/** @param days of May 2026, in UTC */
function on(distinct_id: string, event: string, ...days: number[]) {
  return days.map((day) => ({ event, distinct_id, timestamp: Date.UTC(2026, 4, 0) + day * 86_400_000 }))
}

let shared: Promise<Project> | undefined

async function openProject(): Promise<Project> {
  const project = await newProject()
  const events = [
    ...on('ada', 'signup', 1.5),
    ...on('ada', 'visit', 1.5, 2.1, 4.2),
    // It began before the range, so it belongs to no cohort of first starts.
    ...on('bob', 'signup', 0.5, 2.5),
    ...on('bob', 'visit', 3.1),
    ...on('eve', 'signup', 1.9),
    ...on('eve', 'visit', 1.2, 2.95),
    ...on('$anonymous', 'signup', 1.5),
  ]
  t.equal((await project.call('POST', '/public/track/batch', { events })).statusCode, 200)
  return project
}

async function ask(question: object) {
  shared ??= openProject()
  return (await (await shared).call('POST', '/public/query', question)).json()
}

const RETENTION = {
  kind: 'retention',
  start: { event: 'signup' },
  return: { event: 'visit' },
  from: '2026-05-01',
  to: '2026-05-05',
  intervals: 4,
}

const counts = (results: { size: number; cells: { users: number; complete: boolean }[] }[]) =>
  results.map(({ size, cells }) => [size, ...cells.map(({ users, complete }) => (complete ? users : `${users}?`))])

t.test('returning users, by the day of the first start', async (t) => {
  const { results, averages, query } = await ask(RETENTION)
  t.equal(query.cohort, 'first')
  t.match(results, [
    { cohort: '2026-05-01' },
    { cohort: '2026-05-02' },
    { cohort: '2026-05-03' },
    { cohort: '2026-05-04' },
  ])
  t.strictSame(counts(results), [
    [2, 1, 2, 0, 1],
    [0, 0, 0, 0, '0?'],
    [0, 0, 0, '0?', '0?'],
    [0, 0, '0?', '0?', '0?'],
  ])
  t.strictSame(averages, [
    { interval: 0, share: 0.5 },
    { interval: 1, share: 1 },
    { interval: 2, share: 0 },
    { interval: 3, share: 0.5 },
  ])
})

t.test(
  'cohorts of every start, periods from the start itself, and returns that count for earlier intervals',
  async (t) => {
    const recurring = await ask({ ...RETENTION, cohort: 'recurring' })
    t.strictSame(counts(recurring.results)[1], [1, 0, 1, 0, '0?'])
    const rolling = await ask({ ...RETENTION, mode: 'rolling' })
    t.strictSame(counts(rolling.results)[0], [2, 1, 1, 1, '0?'])
    const orAfter = await ask({ ...RETENTION, count: 'on_or_after' })
    t.strictSame(counts(orAfter.results)[0], [2, 2, 2, 1, 1])
  },
)

t.test('the users behind a number', async (t) => {
  const users = async (cell: object, more = {}) => (await ask({ kind: 'users', of: RETENTION, cell, ...more })).results
  t.strictSame(await users({ cohort: '2026-05-01' }), {
    users: ['ada', 'eve'],
    count: 2,
    page: 1,
    limit: 50,
    hasMore: false,
  })
  t.match(await users({ cohort: '2026-05-01', interval: 3 }), { users: ['ada'], count: 1 })
  t.match(await users({ cohort: '2026-05-01', interval: 1 }, { limit: 1 }), { users: ['ada'], count: 2, hasMore: true })
  t.match(await users({ cohort: '2026-05-01', interval: 1 }, { limit: 1, page: 2 }), { users: ['eve'], hasMore: false })
  t.match(await users({ cohort: '2026-05-03' }), { users: [], count: 0 })
})
