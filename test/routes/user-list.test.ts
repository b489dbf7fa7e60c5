import fc from 'fast-check'
import t, { type Test } from 'tap'
import { Questions } from '../../src/questions/run.js'
import { listUsers } from '../../src/questions/user-list.js'
import { openStore } from '../../src/store/open.js'
import { callsOf } from '../alias-calls.js'
import { type Client, SECRET_KEY, startApp, startRedis } from '../helper.js'
import { type Node, shardsUrl, startNodes } from '../nodes.js'
import { newProject } from '../shared-app.js'

const SIGNAL = new AbortController().signal

type Listed = { distinct_id: string; properties: object; created_at: number | null; last_seen: number | null }

/** The users of a list, by pages of `limit`. */
async function list({ call }: Client, query: Record<string, string>, limit = 1000): Promise<Listed[]> {
  const found: Listed[] = []
  for (let page = 1; ; page++) {
    const parameters = new URLSearchParams({ ...query, limit: String(limit), page: String(page) })
    const response = await call('GET', `/public/users?${parameters}`)
    if (response.statusCode !== 200) throw new Error(response.body)
    const { users, hasMore } = response.json()
    found.push(...users)
    if (!hasMore) return found
  }
}

const toNames = (users: Listed[]) => users.map(({ distinct_id }) => distinct_id)

/** The names of the users that a search finds, by pages of `limit`. */
const search = async (app: Client, text: string, limit?: number) => toNames(await list(app, { search: text }, limit))

/** The names of the users that pass a filter. */
const filter = async (app: Client, where: unknown) => toNames(await list(app, { where: JSON.stringify(where) }))

async function findsUsers(t: Test, client: Client): Promise<void> {
  const { identify, alias, track, remove } = callsOf(client)
  await identify('ada', { name: 'Ada Lovelace', email: 'ADA@Example.com', n: 4711, tags: ['countess'] })
  await identify('adam', { name: 'Smith "the \\ Wealth" \u0000', city: 'Zürich' })
  await identify('bob', { name: 'Bob', likes: 'ada' })
  await track('with-events-ada')

  const all = ['ada', 'with-events-ada', 'adam', 'bob']
  t.strictSame(await search(client, 'ada'), all, 'the user of that name first, then those seen last')
  t.strictSame(await search(client, 'ADA'), all.with(0, 'with-events-ada').with(1, 'ada'), 'in any case')
  t.strictSame(await search(client, 'lovelace'), ['ada'])
  await findsTexts(t, client)

  t.strictSame((await alias('bob', 'visitor-1')).statusCode, 200)
  await identify('visitor-2', { name: 'hidden' })
  await alias('ada', 'visitor-2')
  await alias('adam', 'bob')
  t.strictSame(await search(client, 'VISITOR'), ['ada', 'adam'], 'by aliases, through those in between')
  t.strictSame(await search(client, 'visitor-1'), ['adam'])
  t.strictSame(await search(client, 'bob'), ['adam'])
  t.strictSame(await search(client, 'hidden'), [], 'data of a name from before it became an alias belongs to nobody')
  await alias('adam', 'ada-2')
  t.strictSame(await search(client, 'ada-2'), ['adam'])
  t.strictSame(await search(client, 'ada'), ['ada', 'with-events-ada', 'adam'])
  t.strictSame(await search(client, 'd', 1), ['with-events-ada', 'ada', 'adam'], 'by pages')

  t.equal(await remove('ada'), 200)
  t.strictSame(await search(client, 'ada'), ['with-events-ada', 'adam'], 'a deleted user is not found')
  t.strictSame(await search(client, 'visitor-2'), [])
}

async function findsTexts(t: Test, client: Client): Promise<void> {
  t.strictSame(await search(client, 'bob'), ['bob'])
  t.strictSame(await search(client, '@example.'), ['ada'])
  t.strictSame(await search(client, 'ZÜRICH'), ['adam'])
  t.strictSame(await search(client, '"the \\ w'), ['adam'], 'by the text, not its spelling')
  t.strictSame(await search(client, 'h" \u0000'), ['adam'])
  for (const none of ['4711', 'countess', 'email', '%', '_', "' OR 1"]) {
    t.strictSame(await search(client, none), [], none)
  }
}

const HOUR = 3_600_000
const DAY = 24 * HOUR

/**
 * Lists everybody; the project must be empty.
 * @param hasOperators whether to filter by all operators, which each shard evaluates in the same way
 */
async function listsUsers(t: Test, client: Client, hasOperators: boolean): Promise<void> {
  const { call } = client
  const { identify, alias, track } = callsOf(client)
  const now = Date.now()
  // Within every window that the list searches, and before all of them.
  const ages = [0.01, 1.9, 2.1, 25, 11 * 24, 13 * 24, 140 * 24, 900 * 24]
  const seen = ages.flatMap((hours, i) => {
    return [1, 2].map((n) => ({ name: `u${i}-${n}`, at: Math.round(now - hours * HOUR - n * 60_000) }))
  })
  const events = seen.flatMap(({ name, at }) => [
    { event: 'e', distinct_id: name, timestamp: at },
    { event: 'e', distinct_id: name, timestamp: at - 5 * DAY },
  ])
  await call('POST', '/public/track/batch', { events })
  await track('$anonymous')
  await identify('profile-only', { plan: 'pro', seats: 5 })
  await identify(seen[12]?.name ?? '', { plan: 'pro', 'a.b': 'x', tags: ['new', 'big'] })
  await identify(seen[3]?.name ?? '', { plan: 'free', seats: 1 })

  const everybody = [...seen.map(({ name }) => name), 'profile-only']
  const everyone = { order: 'last_seen' }
  t.strictSame(toNames(await list(client, everyone)), everybody, 'most recently seen first, then those never seen')
  t.strictSame(toNames(await list(client, everyone, 15)), everybody, 'by pages')
  const [first] = await list(client, everyone)
  t.match(first, { properties: {}, created_at: null, updated_at: null, last_seen: seen[0]?.at }, 'without a profile')
  t.match((await list(client, everyone)).at(-1), { properties: { plan: 'pro' }, created_at: Number, last_seen: null })

  const [pro = '', free = ''] = [seen[12]?.name, seen[3]?.name]
  const filters: [unknown, string[]][] = [
    [
      ['is', 'user.plan', ['pro']],
      [pro, 'profile-only'],
    ],
    [['not_set', 'user.plan'], everybody.filter((name) => ![pro, free, 'profile-only'].includes(name))],
    [
      ['starts_with', 'distinct_id', 'u7-'],
      ['u7-1', 'u7-2'],
    ],
  ]
  const operators: [unknown, string[]][] = [
    [['is', ['user', 'a.b'], ['x']], [pro]],
    [['contains', 'user.tags', 'big'], [pro]],
    [
      ['matches', 'user.plan', '^(pro|free)$'],
      [free, pro, 'profile-only'],
    ],
    [['gte', 'user.seats', 2], ['profile-only']],
    [
      [
        'and',
        [
          ['set', 'user.plan'],
          ['not', ['is', 'user.plan', ['pro']]],
        ],
      ],
      [free],
    ],
    [['and', []], everybody],
  ]
  if (hasOperators) filters.push(...operators)
  for (const [where, wanted] of filters) t.strictSame(await filter(client, where), wanted, JSON.stringify(where))
  const both = await list(client, { search: 'PRO', where: '["set","user.seats"]' })
  t.strictSame(toNames(both), ['profile-only'], 'a search and a filter')

  await alias(pro, 'u7-1')
  await alias('u0-1', pro)
  const merged = everybody.filter((name) => name !== pro && name !== 'u7-1')
  t.strictSame(toNames(await list(client, everyone, 15)), merged, 'one user for all names, by the latest event')
  t.strictSame(await filter(client, ['is', 'user.plan', ['pro']]), ['u0-1', 'profile-only'])
  t.strictSame(await search(client, 'u7-1'), ['u0-1'])
  const erased = await call('POST', '/public/users/erase', { distinct_ids: ['u0-1', 'u5-2', 'profile-only'] })
  t.equal(erased.statusCode, 200)
  const rest = merged.filter((name) => !['u0-1', 'u5-2', 'profile-only'].includes(name))
  t.strictSame(toNames(await list(client, everyone, 15)), rest, 'without erased users')
  t.strictSame(await search(client, 'u7-1'), [])
}

t.test('one shard', async (t) => {
  const client = await newProject()
  const { call } = client
  const { identify, alias } = callsOf(client)

  t.test('finds users by their names, aliases and texts', (t) => findsUsers(t, client))

  t.test('a found user looks like in the list, and an empty search returns the list', async (t) => {
    await identify('exact', { n: 1, x: [null], deep: { a: 'b' } })
    const { users } = (await call('GET', '/public/users')).json()
    const wanted = users.filter(({ distinct_id }: { distinct_id: string }) => distinct_id === 'exact')
    const found = await call('GET', '/public/users?search=exac')
    const listed = wanted.map((user: object) => ({ ...user, last_seen: null }))
    t.strictSame(found.json(), { status: 1, error: null, users: listed, page: 1, limit: 50, hasMore: false })
    t.equal((await call('GET', '/public/users?search=')).body, (await call('GET', '/public/users')).body)
    t.strictSame((await call('GET', '/public/users?search=exact&page=2')).json().users, [])
    const long = await call('GET', `/public/users?search=${'x'.repeat(256)}`)
    t.match(long.json(), { code: 'invalid_request', details: [{ path: '/search' }] })
  })

  t.test('finds a user by the longest name, of characters with two UTF-16 units each', async (t) => {
    const name = '😀'.repeat(255)
    await identify(name)
    t.strictSame(await search(client, name), [name])
    const values = await call('GET', `/public/schema/values?field=user.name&search=${encodeURIComponent(name)}`)
    t.equal(values.statusCode, 200, values.body)
    const long = await call('GET', `/public/users?search=${encodeURIComponent(`${name}x`)}`)
    t.match(long.json(), { code: 'invalid_request', details: [{ path: '/search' }] })
    await call('DELETE', `/public/users/${encodeURIComponent(name)}`)
  })

  t.test('searches texts that ClickHouse’s parser rejects', async (t) => {
    const properties = String.raw`{"half":"\ud800 needle","n":1e400,"name":"caf\u00e9 \"x\"","id":123456789012345678901}`
    await call('POST', '/public/users/identify', `{"distinct_id":"refused","properties":${properties}}`)
    for (const text of ['NEEDLE', 'CAFÉ "', ' needle']) t.strictSame(await search(client, text), ['refused'], text)
    for (const none of ['half', '1e400', 'd800', '","']) t.strictSame(await search(client, none), [], none)
  })

  t.test('finds any text of a profile by any part of it', async () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(text, text, text, async (before, sought, after) => {
        await identify('any', { text: before + sought + after })
        // Not an assertion of tap, which would write the texts into the output that it parses.
        return (await search(client, sought)).includes('any')
      }),
      { numRuns: 3 },
    )
  })

  t.test('returns the aliases of a user under any name', async (t) => {
    const of = async (name: string) => (await call('GET', `/public/users/${name}/aliases`)).json()
    t.strictSame(await of('nobody'), { status: 1, error: null, distinct_id: 'nobody', aliases: [], hasMore: false })
    for (const name of ['z', 'y']) await alias('x', name)
    await alias('w', 'x')
    const wanted = { status: 1, error: null, distinct_id: 'w', aliases: ['x', 'y', 'z'], hasMore: false }
    for (const name of ['w', 'x', 'y']) {
      const answer = await of(name)
      t.strictSame({ ...answer, aliases: answer.aliases.toSorted() }, wanted, name)
    }
  })
})

t.test('everybody', async (t) => {
  const client = await newProject()
  const { call } = client
  t.strictSame(await list(client, { order: 'last_seen' }), [], 'of an empty project')
  await listsUsers(t, client, true)

  t.test('a large project is searched from the latest events on', async (t) => {
    const { shards, close } = await openStore(client.config)
    const questions = new Questions({
      shards,
      barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
      aliases: { hasAny: async () => true },
      limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: 1 << 30 },
    })
    const everybody = toNames(await list(client, { order: 'last_seen' }))
    for (const limit of [4, 10, 40]) {
      for (let offset = 0; offset < everybody.length; offset += limit) {
        const which = { text: '', where: null, offset, limit }
        const found = await listUsers(questions, client.projectId, { list: which, signal: SIGNAL, few: 1 })
        const wanted = everybody.slice(offset, offset + limit)
        t.strictSame(
          found.map(({ name }) => name),
          wanted,
          `${offset} to ${offset + limit}`,
        )
      }
    }
    await close()
  })

  t.test('a filter that does not apply to users is refused with its path', async (t) => {
    const refused: [string, string][] = [
      ['x', '/where'],
      ['{}', '/where'],
      ['["is","user.plan","pro"]', '/where/2'],
      ['["or",[["set","user.plan"],["is","event",["e"]]]]', '/where/1/1/1'],
      ['["set","properties.plan"]', '/where/1'],
      ['["gt","timestamp",5]', '/where/1'],
      ['["matches","user.plan","("]', '/where/2'],
      [`["is","user.plan",["${'x'.repeat(8000)}"]]`, '/where'],
    ]
    for (const [where, path] of refused) {
      const response = await call('GET', `/public/users?where=${encodeURIComponent(where)}`)
      t.match(response.json(), { code: 'invalid_request', details: [{ path }] }, where.slice(0, 60))
    }
    const order = await call('GET', '/public/users?order=name')
    t.match(order.json(), { code: 'invalid_request', details: [{ path: '/order' }] })
  })

  t.test('a filter that no user matches is checked for names and values that do not exist', async (t) => {
    const { call } = client
    await call('POST', '/public/users/identify', { distinct_id: 'planned', properties: { planned: 'pro' } })
    const read = async (where: unknown) => {
      const query = new URLSearchParams({ where: JSON.stringify(where) })
      return (await call('GET', `/public/users?${query}`)).json().warnings
    }
    t.match(await read(['is', 'user.planed', ['pro']]), [
      { path: '/where/1', message: 'No profile has the property “planed”. Did you mean “planned”?' },
    ])
    t.match(await read(['is', 'user.planned', ['Pro']]), [{ path: '/where/2/0', suggestion: 'pro' }])
    t.equal(await read(['is', 'user.planned', ['pro']]), undefined, 'a filter with users')
    t.equal(await read(['is', 'distinct_id', ['nobody']]), undefined)
    t.match(await read(['is', 'distinct_id', [42]]), [{ path: '/where/2/0', suggestion: '42' }])
    t.match(await read(['gt', 'distinct_id', 42]), [{ path: '/where/1', message: /is never a number/ }])
  })

  t.test('the properties are exactly as sent', async (t) => {
    const properties = String.raw`{"half":"\ud800","n":1e400,"big":12345678901234567890,"f":1.0}`
    await call('POST', '/public/users/identify', `{"distinct_id":"exact","properties":${properties}}`)
    const { body } = await call('GET', '/public/users?order=last_seen&search=exact')
    t.match(body, `{"distinct_id":"exact","properties":${properties},"created_at":`)
    t.strictSame(await filter(client, ['is', 'user.f', [1]]), ['exact'])
  })
})

t.test('several shards', async (t) => {
  const nodes = (await startNodes(t, 2)) as [Node, Node]
  const redis = await startRedis(t)
  const env = {
    PUBLIC_API_KEY: 'pk_test_public_key',
    SECRET_KEY,
    LOG_LEVEL: 'silent',
    PORT: '0',
    LANES: '2',
    FACTS: 'off',
  }
  const client = await startApp(t, { ...env, REDIS_URL: redis.url, CLICKHOUSE_URL: shardsUrl(nodes) })
  await listsUsers(t, client, false)
  const { identify, alias } = callsOf(client)
  await identify('ada', { name: 'Ada Lovelace' })
  await alias('ada', 'visitor-1')
  t.strictSame(await search(client, 'LOVELACE'), ['ada'])
  t.strictSame(await search(client, 'visitor-1'), ['ada'])
})
