import type { InjectOptions, LightMyRequestResponse } from 'fastify'
import t from 'tap'
import { makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import {
  type Client,
  LANES,
  PUBLIC_KEY,
  SECRET_KEY,
  type StoredEvent,
  settingsFor,
  startApp,
  until,
} from '../helper.js'

/** Appears in all data of the first project and in nothing that the second one sends. */
const MARK = 'of-the-first-project'

/** The service as one project sees it. */
interface View {
  /** with the secret key */
  call(
    method: InjectOptions['method'],
    url: string,
    body?: object,
    headers?: Record<string, string>,
  ): Promise<LightMyRequestResponse>
  /** with the public key */
  browser(call: 'start' | 'update' | 'end', body: object): Promise<LightMyRequestResponse>
}

function view({ app }: Client, secretKey: string, publicKey: string): View {
  return {
    call: (method = 'GET', url, body, headers = {}) =>
      app.inject({ method, url, headers: { 'x-api-key': secretKey, ...headers }, ...(body && { payload: body }) }),
    browser: (call, body) =>
      app.inject({ method: 'POST', url: `/public/sessions/${call}`, payload: { apiKey: publicKey, ...body } }),
  }
}

/** Everything that a project can see of itself. */
async function snapshot({ call }: View, users: string[], sessions: string[]): Promise<unknown> {
  const events = (await call('GET', '/public/events?limit=10000')).json()
  const paths = [
    '/public/users?limit=10000',
    ...users.map((user) => `/public/users/${user}`),
    ...sessions.map((session) => `/public/sessions/${session}`),
  ]
  const rest = []
  for (const path of paths) rest.push((await call('GET', path)).json())
  return [events, ...rest]
}

for (const storage of LANES) {
  t.test(storage, async (t) => {
    const env = { ...(await settingsFor(t, storage)), DELETE_USER_EVENTS: 'true', FACTS: 'off' }
    const client = await startApp(t, env)
    const [secretKey, publicKey] = [makeKey('secret'), makeKey('public')]
    const { clickhouse, close } = await openStore(client.config)
    const keys = [
      storedKey(secretKey, { projectId: 'second', kind: 'secret' }),
      storedKey(publicKey, { projectId: 'second', kind: 'public' }),
    ]
    await insertKeys(clickhouse, keys, Date.now())
    await close()
    const first = view(client, SECRET_KEY, PUBLIC_KEY)
    const second = view(client, secretKey, publicKey)
    await until(
      'the keys of the second project',
      async () => (await second.call('GET', '/public/users')).statusCode === 200,
    )

    const idempotent = { 'idempotency-key': 'shared' }
    const event = { event: MARK, distinct_id: 'u', properties: { [MARK]: 1 }, timestamp: 1_700_000_000_000 }
    await first.call('POST', '/public/track/batch', { events: Array.from({ length: 5 }, () => event) })
    const tracked = await first.call('POST', '/public/track', event, idempotent)
    const id = String(tracked.headers['x-event-id'])
    await first.call('POST', '/public/users/identify', { distinct_id: 'u', properties: { [MARK]: 1 } })
    await first.call('POST', '/public/users/identify', { distinct_id: 'v' })
    const session = { distinct_id: 'u', session_id: 's' }
    await first.browser('start', { ...session, properties: { [MARK]: 1 } })
    const mine = () => snapshot(first, ['u', 'v'], ['s'])
    const before = await mine()
    const events = (await first.call('GET', '/public/events')).json().events as StoredEvent[]
    t.equal(events.length, 6)

    t.test('names and ids of the other project are not found', async (t) => {
      const calls: [InjectOptions['method'], string, object?][] = [
        ['GET', '/public/users/u'],
        ['DELETE', '/public/users/u'],
        ['DELETE', '/public/users/v'],
        ['GET', '/public/sessions/s'],
        ['GET', '/public/users/u/export'],
      ]
      for (const eventId of [id, id.toUpperCase(), events[0]?.eventId]) {
        calls.push(['GET', `/public/events/${eventId}`])
        calls.push(['PUT', `/public/events/${eventId}`, { properties: { theirs: 1 } }])
        calls.push(['DELETE', `/public/events/${eventId}`])
      }
      for (const [method, url, body] of calls) {
        const response = await second.call(method, url, body)
        t.equal(response.statusCode, 404, `${method} ${url}`)
        t.match(response.json(), { status: 0, code: 'not_found' })
        t.notMatch(response.body, MARK)
      }
      for (const call of ['update', 'end'] as const) {
        for (const distinct_id of ['u', 'x']) {
          const response = await second.browser(call, { ...session, distinct_id })
          t.match([response.statusCode, response.json().code], [404, 'not_found'], 'not even its existence')
        }
      }
      t.strictSame(await mine(), before)
    })

    t.test('pages, cursors and filters return nothing of the other project', async (t) => {
      const cursors = []
      for (const limit of [1, 2]) {
        // The first project's walks leave page starts in memory.
        for (let page = 1; page <= 3; page++) {
          const { next } = (await first.call('GET', `/public/events?limit=${limit}&page=${page}`)).json()
          if (next) cursors.push(next)
        }
      }
      const queries = [
        '',
        ...[1, 3, 1000].flatMap((page) => [1, 2].map((limit) => `limit=${limit}&page=${page}`)),
        ...cursors.map((cursor) => `cursor=${cursor}`),
        `event=${MARK}`,
        'distinct_id=u',
        'from=0&to=9999999999999',
        `event=${MARK}&distinct_id=u&cursor=${cursors[0]}`,
      ]
      t.ok(cursors.length >= 5)
      for (const query of queries) {
        const response = await second.call('GET', `/public/events?${query}`)
        t.match(response.json(), { status: 1, hasMore: false, next: null, pending: 0 }, query)
        t.strictSame(response.json().events, [])
        for (const format of query === '' || query.includes('cursor') ? ['ndjson', 'csv'] : []) {
          const rows = await second.call('GET', `/public/events?format=${format}&${query}`)
          t.equal(rows.statusCode, 200)
          t.notMatch(rows.body, MARK)
          t.match(rows.headers, { 'x-has-more': 'false', 'x-pending': '0', 'x-next-cursor': undefined })
        }
      }
      for (const query of ['', 'limit=1', 'limit=1&page=2', 'page=1000']) {
        const { users, hasMore } = (await second.call('GET', `/public/users?${query}`)).json()
        t.strictSame([users, hasMore], [[], false])
        t.strictSame((await second.call('GET', `/public/sessions?${query}`)).json().sessions, [])
      }
      t.strictSame(await mine(), before)
    })

    t.test('the same names and Idempotency-Keys are independent', async (t) => {
      const event = { event: 'theirs', distinct_id: 'u' }
      const again = await second.call('POST', '/public/track', event, idempotent)
      t.equal(again.statusCode, 200, 'no conflict with the body of the other project')
      t.not(again.headers['x-event-id'], id)
      const change = { distinct_id: 'u', operations: { $add: { n: 1 } } }
      for (let i = 0; i < 2; i++) {
        const headers = { 'idempotency-key': 'shared-too' }
        t.equal((await second.call('POST', '/public/users/profile', change, headers)).statusCode, 200)
      }
      t.strictSame((await second.call('GET', '/public/users/u')).json().user.properties, { n: 1 })
      t.equal((await second.call('POST', '/public/users/identify', { distinct_id: 'v' })).statusCode, 200)
      const theirs = { distinct_id: 'another', session_id: 's' }
      t.equal((await second.browser('start', theirs)).statusCode, 200, 'the id is free here')
      t.equal((await second.browser('end', theirs)).statusCode, 200)
      t.equal((await second.call('GET', '/public/events')).json().events.length, 1)
      t.strictSame(await mine(), before)

      const users = (await second.call('GET', '/public/users')).json().users
      t.strictSame(users.map(({ distinct_id }: { distinct_id: string }) => distinct_id).sort(), ['u', 'v'])
    })

    t.test('concurrent calls of both', async (t) => {
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, n) => {
          const [who, event] = n % 2 ? [first, MARK] : [second, 'theirs']
          return who.call('POST', '/public/track', { event, distinct_id: `both-${n % 2}`, properties: { n } })
        }),
      )
      // In flight to the store, or in one statement with edits of the other project.
      const fresh = String(results[1]?.headers['x-event-id'])
      const [put, wrongPut, wrongDelete] = await Promise.all([
        first.call('PUT', `/public/events/${fresh}`, { properties: { n: 'edited' } }),
        second.call('PUT', `/public/events/${fresh}`, { properties: { n: 'theirs' } }),
        second.call('DELETE', `/public/events/${fresh}`),
      ])
      t.strictSame(
        [put, wrongPut, wrongDelete].map(({ statusCode }) => statusCode),
        [200, 404, 404],
      )
      const ofFirst = (await first.call('GET', '/public/events?distinct_id=both-1')).json().events as StoredEvent[]
      const ofSecond = (await second.call('GET', '/public/events?distinct_id=both-0')).json().events as StoredEvent[]
      t.strictSame(
        ofFirst.map(({ properties }) => properties.n),
        ['edited', 3, 5, 7, 9, 11, 13, 15, 17, 19],
      )
      t.strictSame(
        ofSecond.map(({ properties }) => properties.n),
        [0, 2, 4, 6, 8, 10, 12, 14, 16, 18],
      )
      t.equal((await second.call('DELETE', '/public/users/both-1')).statusCode, 404)
      t.equal((await first.call('DELETE', '/public/users/both-1')).statusCode, 200)
      t.equal((await second.call('GET', '/public/events?distinct_id=both-0')).json().events.length, 10)
      const { pending } = (await second.call('GET', '/public/events')).json()
      t.equal(pending, 0)
    })

    t.test('deleting a user affects its own project only', async (t) => {
      const present = await mine()
      for (const user of ['u', 'v', 'another']) await second.call('DELETE', `/public/users/${user}`)
      t.strictSame((await second.call('GET', '/public/events?distinct_id=u')).json().events, [])
      t.equal((await second.call('GET', '/public/sessions/s')).statusCode, 404)
      t.strictSame(await mine(), present)
    })
  })
}
