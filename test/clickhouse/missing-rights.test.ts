import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { dataFolder, PUBLIC_KEY, SECRET_KEY, startApp } from '../helper.js'
import { type Node, startNode } from '../nodes.js'

/** The minimum rights of a user according to docs/deployment.md. */
const DEMANDED = ['GRANT ALL ON analytics.*', 'GRANT TABLE ENGINE ON *']
/** Needed to check whether the engine is up. */
const ENGINE = 'GRANT SELECT ON system.server_settings'
/** System tables that ClickHouse shows to every user. */
const OPEN = ['columns', 'databases', 'settings', 'tables']

const systemTablesIn = (text: string) => [...text.matchAll(/\bsystem\.(\w+)/g)].map(([, name = '']) => name)

async function startLimited(t: Test, grants: string[]): Promise<Node> {
  return await startNode(t, { isNative: false, mayReadRemote: false, grants: [...DEMANDED, ENGINE, ...grants] })
}

async function start(t: Test, { url }: Node) {
  const warnings: { msg: string; grant?: string }[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => warnings.push(JSON.parse(line)) })
  const env = { PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, DATA_DIR: await dataFolder(t), CLICKHOUSE_URL: url, PORT: '0' }
  return { ...(await startApp(t, env, { log })), warnings }
}

/** The GRANT in the log of a service whose user has no other rights. */
let logged = ''

t.test(
  'a user with rights only to its own database can use the whole API, and the log names missing rights',
  async (t) => {
    const { call, browser, events, warnings } = await start(t, await startLimited(t, []))
    t.match(warnings, [{ grant: /^GRANT SELECT ON system\.parts, .*SELECT ON system\.processes/ }])
    logged = warnings[0]?.grant ?? ''
    const user = { distinct_id: 'ada' }
    const session = { ...user, session_id: 's' }
    await call('POST', '/public/track', { ...user, event: 'a' })
    await call('POST', '/public/track', { ...user, event: 'b' })
    const [first, second] = await events()
    const questions = { kind: 'series', series: [{ event: '*' }], from: '2026-01-01', to: '2026-01-02' }
    for (const { statusCode, body } of [
      await call('POST', '/public/users/identify', user),
      await call('POST', '/public/users/alias', { ...user, alias: 'a' }),
      await browser('/public/sessions/start', session),
      await call('PUT', `/public/events/${first?.eventId}`, { properties: { edited: true } }),
      await call('DELETE', `/public/events/${second?.eventId}`),
      await call('GET', '/public/export?format=parquet'),
      await call('GET', '/public/sessions?distinct_id=ada'),
      await call('POST', '/public/query', questions),
      await call('GET', '/public/users/ada/export'),
      await call('GET', '/metrics'),
      await call('GET', '/health/ready'),
      await call('DELETE', '/public/users/ada'),
    ])
      t.equal(statusCode, 200, body.slice(0, 200))
    t.match(await events(), [{ event: 'a', properties: { edited: true } }])
  },
)

t.test('the logged GRANT gives all rights that are needed', async (t) => {
  const granted = await start(t, await startLimited(t, [logged]))
  t.strictSame(granted.warnings, [])
})

t.test('docs/deployment.md grants every system table that the service reads, and the log no other', async (t) => {
  const granted = new Set(systemTablesIn(await readFile('docs/deployment.md', 'utf8')))
  const files = await readdir('src', { recursive: true })
  const read = new Set<string>()
  for (const file of files.filter((name) => name.endsWith('.ts') && !name.startsWith('clickhouse/embedded/'))) {
    for (const name of systemTablesIn(await readFile(join('src', file), 'utf8'))) read.add(name)
  }
  t.strictSame([...granted].sort(), [...read].filter((name) => !OPEN.includes(name)).sort())
  const ofReplicas = ['macros', 'replicas', 'replication_queue']
  // The log of queries does not exist before its first entry.
  const others = [...ofReplicas, ...systemTablesIn(ENGINE), 'query_log']
  t.strictSame(
    [...new Set(systemTablesIn(logged))].sort(),
    [...granted].filter((name) => !others.includes(name)).sort(),
  )
})
