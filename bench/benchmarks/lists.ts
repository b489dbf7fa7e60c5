import { type Benchmark, eachRound } from '../benchmark.js'
import { time } from '../calls.js'
import type { HttpRequest } from '../requests.js'
import { PROJECT, Store } from '../store.js'

const PROFILES = 1_000_000
const SESSIONS = 10_000_000
const USERS = 400_000
const START_MS = Date.UTC(2025, 0, 1)
const STEP_MS = 3_000

/** Pages of sessions and users, compared with a query that reads the same number of rows in any version. */
export const lists: Benchmark = async (bench) => {
  const { servers } = bench
  const clickhouse = await servers.clickhouse()
  const store = new Store(clickhouse)
  const service = await servers.tallyhouse(clickhouse)
  await fill(store)

  const direct = (table: string, order: string): HttpRequest => ({
    method: 'POST',
    path: store.path({}),
    body: `SELECT * FROM ${table} WHERE project_id = '${PROJECT}' ORDER BY ${order} LIMIT 51 FORMAT JSONEachRow`,
    headers: { authorization: store.authorization },
  })
  const newestSessions = direct('sessions', 'started_at DESC')
  const firstProfiles = direct('profiles', 'project_id, distinct_id')
  const compared = [
    { name: `sessions, page 1 of ${SESSIONS / 1e6} million`, path: '/public/sessions', limit: newestSessions },
    { name: 'sessions, page 1 of the active ones', path: '/public/sessions?state=active', limit: newestSessions },
    { name: 'sessions of one user', path: '/public/sessions?distinct_id=user-77', limit: newestSessions },
    { name: `users, page 1 of ${PROFILES / 1e6} million`, path: '/public/users', limit: firstProfiles },
    { name: 'users, search by e-mail', path: '/public/users?search=u777777%40example.com', limit: firstProfiles },
  ]
  const lines = compared.map(({ name, path, limit }) => ({
    note: bench.figure(name, { unit: 'ms', over: 'rows of any version' }),
    ours: { method: 'GET', path } as const,
    limit,
  }))
  for (const { ours } of lines) await time(service.url, ours, 1)
  await eachRound(bench, store, async () => {
    for (const { note, ours, limit } of lines) note(await time(service.url, ours), await time(store.url, limit))
  })
}

async function fill(store: Store): Promise<void> {
  await store.text(
    `INSERT INTO profiles (project_id, distinct_id, properties, created_at, updated_at, version, is_deleted)
     SELECT '${PROJECT}', concat('user-', toString(number)),
       concat('{"plan":"', ['free', 'pro', 'team'][1 + number % 3], '","email":"u', toString(number), '@example.com"}'),
       ${START_MS}, ${START_MS}, number + 1, 0
     FROM numbers(${PROFILES})`,
  )
  await store.text(
    `INSERT INTO sessions (project_id, session_id, distinct_id, state, properties, duration, started_at, updated_at, ended_at,
       version, is_deleted)
     WITH ${START_MS} + number * ${STEP_MS} AS start, number % 10 = 0 AS is_active
     SELECT '${PROJECT}', lower(hex(sipHash64(number))), concat('user-', toString(number % ${USERS})),
       if(is_active, 'active', 'completed'), '{"page":"/pricing","device":"phone"}', number % 900,
       start, start + 60000, if(is_active, NULL, start + 60000), number + 1, 0
     FROM numbers(${SESSIONS})`,
  )
  await store.quiet()
}
