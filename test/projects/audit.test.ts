import { randomUUID } from 'node:crypto'
import t from 'tap'
import { command as facts } from '../../src/cli/facts.js'
import type { AuditLogEntry } from '../../src/contract/key-schemas.js'
import { KeyRefresh, type KeysFound } from '../../src/keys/key-refresh.js'
import { KeyRing } from '../../src/keys/key-ring.js'
import { openKeyTable } from '../../src/store/api-keys.js'
import { run } from '../cli/lanes-store.js'
import { type Client, settingsFor, silent, startApp, until } from '../helper.js'
import { listRoutes } from '../list-routes.js'
import { emptyClickHouse } from '../shared-engine.js'

/** The reasons why calls that change something are not in the audit log, by `METHOD path`. */
const NOT_LOGGED = {
  'takes in what clients send': [
    'POST /public/track',
    'POST /public/track/batch',
    'POST /public/import',
    'POST /public/sessions/start',
    'POST /public/sessions/update',
    'POST /public/sessions/end',
    'POST /public/users/batch',
  ],
  'changes one thing that clients have sent, as often as they like': [
    'POST /public/users/identify',
    'POST /public/users/profile',
    'POST /public/users/alias',
    'DELETE /public/users/:userId/aliases/:alias',
    'PUT /public/events/:eventId',
    'DELETE /public/events/:eventId',
  ],
  'stores what clients have sent': ['POST /public/dead-letters/replay'],
  'is how people look at the data, and has revisions': [
    'PUT /public/questions/:id',
    'DELETE /public/questions/:id',
    'PUT /public/boards/:id',
    'DELETE /public/boards/:id',
  ],
  'must work while the journal is full because ClickHouse is down': ['DELETE /public/ids'],
  'changes nothing': ['POST /public/query'],
}

/** Makes each of the other calls. Later ones may use what earlier ones have made. */
const LOGGED: [
  call: string,
  action: string,
  make: (client: Client) => Promise<{ statusCode: number; body: string }>,
][] = [
  ['POST /public/keys', 'key_created', ({ call }) => call('POST', '/public/keys', { kind: 'read' })],
  [
    'PATCH /public/keys/:keyId',
    'key_changed',
    async (client) => client.call('PATCH', await keyPath(client), { label: 'x' }),
  ],
  [
    'POST /public/keys/:keyId/rotate',
    'key_rotated',
    async (client) => client.call('POST', `${await keyPath(client)}/rotate`, {}),
  ],
  ['DELETE /public/keys/:keyId', 'key_revoked', async (client) => client.call('DELETE', await keyPath(client))],
  ['PATCH /public/project', 'project_changed', ({ call }) => call('PATCH', '/public/project', { name: 'Shop' })],
  ['DELETE /public/users/:userId', 'users_erased', ({ call }) => call('DELETE', '/public/users/ada')],
  [
    'POST /public/users/erase',
    'users_erased',
    ({ call }) => call('POST', '/public/users/erase', { distinct_ids: ['bob', 'carol', 'bob'] }),
  ],
  [
    'POST /public/events/delete',
    'batches_deleted',
    async ({ call }) => {
      const { headers } = await call('POST', '/public/track/batch', { events: [{ event: 'e', distinct_id: 'u' }] })
      return await call('POST', '/public/events/delete', { batches: String(headers['x-batch-ids']).split(',') })
    },
  ],
  ['DELETE /public/projects/:project', 'project_erased', ({ call }) => call('DELETE', '/public/projects/default')],
]

/** The path of a key that can be changed. */
async function keyPath({ call }: Client): Promise<string> {
  const { keys } = (await call('GET', '/public/keys')).json()
  const { id } = keys.find(
    ({ source, state }: { source: string; state: string }) => source === 'store' && state === 'valid',
  )
  return `/public/keys/${id}`
}

const readLog = async ({ call }: Client): Promise<AuditLogEntry[]> =>
  (await call('GET', '/public/audit?limit=100')).json().entries

t.test('each call that changes something is in the audit log, or there is a reason why not', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), DELETE_USER_EVENTS: 'true', FACTS: 'off' }
  const client = await startApp(t, env)
  const routes = listRoutes(client.app).filter((route) => /^(?!GET|HEAD|OPTIONS)\w+ \/public\//.test(route))
  t.strictSame(routes.sort(), [...Object.values(NOT_LOGGED).flat(), ...LOGGED.map(([call]) => call)].sort())
  const { call } = client
  const { headers } = await call('POST', '/public/track/batch', { events: [{ event: 'e', distinct_id: 'u' }] })
  const batches = String(headers['x-batch-ids']).split(',')
  t.equal((await call('POST', '/public/events/delete', { batches, dry_run: true })).statusCode, 200)
  t.equal((await call('DELETE', '/public/projects/other')).statusCode, 400)
  t.equal((await call('POST', '/public/users/erase', { distinct_ids: [] })).statusCode, 400)
  t.strictSame(await readLog(client), [], 'calls that change nothing are not in it')
  for (const distinct_id of ['ada', 'bob']) await client.call('POST', '/public/users/identify', { distinct_id })
  for (const [call, action, make] of LOGGED) {
    const before = (await readLog(client)).length
    const { statusCode, body } = await make(client)
    t.equal(statusCode, 200, `${call}: ${body}`)
    const entries = await readLog(client)
    const added = entries.slice(0, entries.length - before)
    t.ok(
      added.some((entry) => entry.action === action && entry.actor.id === 'SECRET_KEY'),
      call,
    )
  }
  const log = JSON.stringify(await readLog(client))
  t.match(log, /"users":{"from":null,"to":2}/, 'with how many')
  t.notMatch(log, /bob|carol|ada/, 'the log does not keep erased data')
})

t.test('of several services that start on an empty store, one makes the first keys', async (t) => {
  const { PUBLIC_API_KEY: _, SECRET_KEY: __, ...env } = await settingsFor(t, 'servers')
  const found: KeysFound[] = []
  const start = () => startApp(t, { ...env, FACTS: 'off' }, { onKeys: (keys) => found.push(keys) })
  const clients = [await start(), await start(), await start()]
  t.equal(found.filter(({ makeFirst }) => makeFirst).length, 3, 'all have found no keys')
  const pairs = (await Promise.all(found.map(({ makeFirst }) => makeFirst?.()))).filter((pair) => pair)
  t.equal(pairs.length, 1)
  const headers = { 'x-api-key': pairs[0]?.secretKey }
  const response = await clients[0]?.call('GET', '/public/keys', undefined, headers)
  t.equal(response?.json().keys.length, 2)
})

t.test('if the process that claimed to make the first keys dies, another one makes them', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  let now = Date.UTC(2026, 10, 20, 12, 0, 9, 999)
  const open = () => openKeyTable(clickhouse, () => now)
  t.equal(await open().claimFirst(randomUUID()), true)
  now += 1
  const { ring, closing } = { ring: new KeyRing([]), closing: new AbortController() }
  t.teardown(() => closing.abort())
  const attempts: boolean[] = []
  const table = {
    ...open(),
    claimFirst: async (id: string) => {
      const isClaimed = await open().claimFirst(id)
      attempts.push(isClaimed)
      now += 20_000
      return isClaimed
    },
  }
  const { makeFirst } = await new KeyRefresh({ ring, table, log: silent, closing: closing.signal }).start('default')
  t.ok(await makeFirst?.())
  t.strictSame(attempts, [false, true], 'not while the other one may still be making them')
  t.equal((await table.read()).length, 2)
})

t.test('the first keys and changes by commands are in the log, too', async (t) => {
  const { PUBLIC_API_KEY: _, SECRET_KEY: __, ...env } = await settingsFor(t, 'embedded')
  const found: KeysFound[] = []
  const client = await startApp(t, { ...env, FACTS: 'off' }, { onKeys: (keys) => found.push(keys) })
  const pair = await found[0]?.makeFirst?.()
  const call: Client['call'] = (method, url, body) => client.call(method, url, body, { 'x-api-key': pair?.secretKey })
  const entries = await until('the keys', async () => {
    const response = await call('GET', '/public/audit')
    return response.statusCode === 200 && (response.json().entries as AuditLogEntry[])
  })
  t.match(entries.map(({ action, changes }) => [action, changes.kind?.to]).sort(), [
    ['key_created', 'public'],
    ['key_created', 'secret'],
  ])
  for (const { actor, target } of entries) {
    t.strictSame(actor, { type: 'service', id: null, label: null })
    t.ok(target && `${pair?.publicKey} ${pair?.secretKey}`.includes(target.id))
  }
  await call('POST', '/public/users/identify', { distinct_id: 'ada' })
  t.equal((await call('DELETE', '/public/users/ada')).statusCode, 200)
  for (const what of ['leave-out', 'take-in']) {
    t.match(await run(facts, [what, 'default'], { ...process.env, ...env }), { code: 0 })
  }
  const [takenIn, leftOut, ...others] = (await call('GET', '/public/audit')).json().entries
  t.equal(others.length, 2, 'a profile that is deleted, but not its events, is not')
  t.match(leftOut, { actor: { type: 'command_line' }, action: 'facts_left_out' })
  t.match(takenIn, { actor: { type: 'command_line' }, action: 'facts_taken_in' })
})
