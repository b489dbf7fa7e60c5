import t from 'tap'
import type { EntryKind } from '../../../src/journal/journal.js'
import { makeKey, storedKey } from '../../../src/keys/keys.js'
import { openLanes } from '../../../src/lanes/lanes.js'
import { openLog } from '../../../src/lib/log.js'
import { insertKeys } from '../../../src/store/api-keys.js'
import { insertDeadLetter } from '../../../src/store/dead-letters.js'
import { openStore } from '../../../src/store/open.js'
import { ProjectErasure } from '../../../src/users/erasure/project-erasure.js'
import { type Client, LANES, SECRET_KEY, settingsFor, startApp, until } from '../../helper.js'

const JOURNAL = 7
const COUNT = 12

for (const storage of ['embedded', ...LANES] as const) {
  t.test(`the erasure of a project, ${storage}`, async (t) => {
    const env = { ...(await settingsFor(t, storage)), FACTS: 'off' }
    const client = await startApp(t, env, { keysRefreshMs: 500 })
    const { clickhouse, close } = await openStore(client.config)
    t.teardown(close)
    // If processes share the journals, one fills the project and another one erases it.
    const other = storage === 'embedded' ? client : await startApp(t, env, { keysRefreshMs: 500 })
    const keptKey = makeKey('secret')
    await insertKeys(clickhouse, [storedKey(keptKey, { projectId: 'kept', kind: 'secret' })], Date.now())

    for (const { call } of [client, other]) {
      const headers = { 'x-api-key': keptKey }
      await until('the key', async () => (await call('GET', '/public/events', undefined, headers)).statusCode === 200)
    }

    const as = (secretKey: string, { call }: Client = client) => {
      const headers = { 'x-api-key': secretKey }
      return async (method: 'GET' | 'POST' | 'PUT' | 'DELETE', url: string, body?: object, status = 200) => {
        const response = await call(method, url, body, headers)
        t.equal(response.statusCode, status, `${method} ${url} ${response.body.slice(0, 200)}`)
        return response
      }
    }
    const fill = async (secretKey: string) => {
      const call = as(secretKey)
      const users = Array.from({ length: COUNT }, (_, i) => `user-${i}`)
      await Promise.all(
        users.flatMap((distinct_id, i) => [
          call('POST', '/public/users/identify', { distinct_id, properties: { n: i } }),
          call('POST', '/public/users/alias', { distinct_id, alias: `visitor-${i}` }),
        ]),
      )
      await call('PUT', '/public/questions/q', { name: 'q', question: { kind: 'series', series: [{ event: 'e' }] } })
      // Last, so that they wait in a journal when the project is erased.
      const events = users.map((distinct_id, i) => ({ event: 'e', distinct_id, insert_id: `id-${i}` }))
      await call('POST', '/public/track/batch', { events })
    }
    const found = async (secretKey: string) => {
      const call = as(secretKey)
      const [events, users, questions, sessions] = await Promise.all(
        ['events?limit=1000', 'users?limit=1000', 'questions', 'sessions?limit=1000'].map((path) =>
          call('GET', `/public/${path}`),
        ),
      )
      return {
        events: events?.json().events.length,
        users: users?.json().users.length,
        questions: questions?.json().questions.length,
        sessions: sessions?.json().sessions.length,
      }
    }
    const letter = async (projectId: string, kind: EntryKind, body: string, i: number) => {
      const receivedAt = 1_760_000_000_000 + i
      const entry = {
        position: BigInt(receivedAt) << 16n,
        kind,
        projectId,
        count: 1,
        receivedAt,
        body: Buffer.from(body),
      }
      await insertDeadLetter(clickhouse, JOURNAL, entry, 'ClickHouse error 27', `letter ${i}`)
    }
    const row = (project_id: string) => JSON.stringify({ project_id, distinct_id: 'ada', properties: '{}' })

    t.test('removes everything of the project, and nothing of another one', async (t) => {
      for (const key of [SECRET_KEY, keptKey]) {
        const { statusCode } = await client.call('PATCH', '/public/project', { name: 'Name' }, { 'x-api-key': key })
        t.equal(statusCode, 200)
      }
      await Promise.all([SECRET_KEY, keptKey].map(fill))
      await client.browser('/public/sessions/start', { distinct_id: 'user-1', session_id: 's', properties: {} })
      await letter('default', 'events', '{"events":[{"event":"e","distinct_id":"ada"}]}', 1)
      await letter('default', 'events', 'no JSON', 2)
      await letter('kept', 'events', '{"events":[{"event":"e","distinct_id":"default"}]}', 3)
      await letter('', 'profiles', `${row('default')},${row('kept')}`, 4)
      await letter('', 'profiles', row('default'), 5)
      await letter('', 'profiles', 'no JSON of default', 6)
      const erased = (await as(SECRET_KEY, other)('DELETE', '/public/projects/default')).json()
      t.match(erased, {
        status: 1,
        error: null,
        erased: { events: COUNT, sessions: 1, profiles: COUNT, aliases: COUNT, dead_letters: 4 },
        complete: true,
        unreadable_dead_letters: 1,
      })
      t.strictSame(await found(SECRET_KEY), { events: 0, users: 0, questions: 0, sessions: 0 })
      t.strictSame(await found(keptKey), { events: COUNT, users: COUNT, questions: 1, sessions: 0 })
      const name = async (key: string) => (await as(key)('GET', '/public/project')).json().project.name
      await until('all processes to know of it', async () => (await name(SECRET_KEY)) === null)
      t.equal(await name(keptKey), 'Name')
      await as(SECRET_KEY)('GET', '/public/users/user-1', undefined, 404)
      t.equal((await as(keptKey)('GET', '/public/users/visitor-1')).json().user.distinct_id, 'user-1')
      const letters = await clickhouse.rows<{ body: string }>('SELECT body FROM dead_letters ORDER BY position')
      t.strictSame(
        letters.map(({ body }) => body),
        ['{"events":[{"event":"e","distinct_id":"default"}]}', row('kept'), 'no JSON of default'],
      )
    })

    t.test('erases only the project of the key, which must be secret', async (t) => {
      const refused = await as(SECRET_KEY)('DELETE', '/public/projects/kept', undefined, 400)
      t.match(refused.json(), { code: 'invalid_request', details: [{ path: '/project' }] })
      const readKey = makeKey('read')
      await insertKeys(clickhouse, [storedKey(readKey, { projectId: 'kept', kind: 'read' })], Date.now())
      const headers = { 'x-api-key': readKey }
      await until('it', async () => (await client.call('GET', '/public/events', undefined, headers)).statusCode === 200)
      await as(readKey)('DELETE', '/public/projects/kept', undefined, 403)
      t.equal((await found(keptKey)).events, COUNT)
    })

    t.test('a repeated call continues one that ended early', { skip: storage === 'embedded' }, async (t) => {
      const { shards, close } = await openStore(client.config)
      t.teardown(close)
      const layout = { version: 1, lanes: client.config.LANES, shards: 1 }
      const closing = new AbortController().signal
      const lanes = await openLanes(client.config, shards, { layout, log: await openLog('silent'), closing })
      t.teardown(() => lanes.close())
      const parts = { ...lanes, shards }
      const first = await new ProjectErasure(parts, 0).erase('kept')
      t.match(first, { events: COUNT, profiles: 0, aliases: 0, isComplete: false })
      t.match(await found(keptKey), { events: 0, users: COUNT, questions: 0 })
      const second = await new ProjectErasure(parts).erase('kept')
      t.match(second, { events: 0, profiles: COUNT, aliases: COUNT, isComplete: true })
      t.match(await found(keptKey), { events: 0, users: 0 })
      const third = await new ProjectErasure(parts).erase('kept')
      t.match(third, { profiles: 0, aliases: 0, deadLetters: 0, isComplete: true })
    })

    t.test('events that are sent again are new, even with known ids', async (t) => {
      const call = as(SECRET_KEY)
      const event = { event: 'e', distinct_id: 'user-1' }
      await call('POST', '/public/track/batch', { events: [{ ...event, insert_id: 'id-1' }] })
      t.equal((await found(SECRET_KEY)).events, 1)
      await call('POST', '/public/track/batch', { events: [{ ...event, insert_id: 'new' }] })
      await call('POST', '/public/users/alias', { distinct_id: 'user-2', alias: 'visitor-1' })
      await call('POST', '/public/users/identify', { distinct_id: 'visitor-1', properties: {} })
      t.match(await found(SECRET_KEY), { events: 2, users: 1 })
      t.equal((await call('GET', '/public/users/visitor-1')).json().user.distinct_id, 'user-2')
    })
  })
}
