import fc from 'fast-check'
import t, { type Test } from 'tap'
import { callsOf } from '../alias-calls.js'
import { SECRET_KEY, settingsFor, startApp, startRedis } from '../helper.js'
import { type Node, shardsUrl, startNodes } from '../nodes.js'

type App = Awaited<ReturnType<typeof startApp>>

/** The names of the users that a search finds, by pages of `limit`. */
async function search({ call }: App, text: string, limit = 1000): Promise<string[]> {
  const found: string[] = []
  for (let page = 1; ; page++) {
    const response = await call('GET', `/public/users?search=${encodeURIComponent(text)}&limit=${limit}&page=${page}`)
    if (response.statusCode !== 200) throw new Error(response.body)
    const { users, hasMore } = response.json()
    found.push(...users.map(({ distinct_id }: { distinct_id: string }) => distinct_id))
    if (!hasMore) return found
  }
}

/** What both kinds of store have to find. */
async function findsUsers(t: Test, client: App): Promise<void> {
  const { identify, alias, track, remove } = callsOf(client)
  await identify('ada', { name: 'Ada Lovelace', email: 'ADA@Example.com', n: 4711, tags: ['countess'] })
  await identify('adam', { name: 'Smith "the \\ Wealth" \u0000', city: 'Zürich' })
  await identify('bob', { name: 'Bob', likes: 'ada' })
  await track('only-events-ada')

  t.strictSame(await search(client, 'ada'), ['ada', 'adam', 'bob'], 'the one who is called so first')
  t.strictSame(await search(client, 'ADA'), ['ada', 'adam', 'bob'], 'in any case')
  t.strictSame(await search(client, 'bob'), ['bob'])
  t.strictSame(await search(client, 'lovelace'), ['ada'])
  t.strictSame(await search(client, '@example.'), ['ada'])
  t.strictSame(await search(client, 'ZÜRICH'), ['adam'])
  t.strictSame(await search(client, '"the \\ w'), ['adam'], 'by what is said, not how it is spelled')
  t.strictSame(await search(client, 'h" \u0000'), ['adam'])
  for (const none of ['4711', 'countess', 'email', 'likes', '%', '_', "' OR 1", 'x'.repeat(255)]) {
    t.strictSame(await search(client, none), [], none)
  }

  t.strictSame((await alias('bob', 'visitor-1')).statusCode, 200)
  await identify('visitor-2', { name: 'hidden' })
  await alias('ada', 'visitor-2')
  await alias('adam', 'bob')
  t.strictSame(await search(client, 'VISITOR'), ['ada', 'adam'], 'by aliases, through those in between')
  t.strictSame(await search(client, 'visitor-1'), ['adam'])
  t.strictSame(await search(client, 'bob'), ['adam'])
  t.strictSame(await search(client, 'hidden'), [], 'what a name was before it became an alias is nobody’s')
  await alias('adam', 'ada-2')
  t.strictSame(await search(client, 'ada-2'), ['adam'])
  t.strictSame(await search(client, 'ada'), ['ada', 'adam'])
  t.strictSame(await search(client, 'd', 1), ['ada', 'adam'], 'by pages')

  t.equal(await remove('ada'), 200)
  t.strictSame(await search(client, 'ada'), ['adam'], 'a deleted user is not found')
  t.strictSame(await search(client, 'visitor-2'), [])
}

t.test('one shard', async (t) => {
  const client = await startApp(t, await settingsFor(t, 'embedded'))
  const { call } = client
  const { identify, alias, track } = callsOf(client)

  t.test('finds users by their names, aliases and texts', (t) => findsUsers(t, client))

  t.test('a found user looks as in the list, and an empty search returns the list', async (t) => {
    await identify('exact', { n: 1, x: [null], deep: { a: 'b' } })
    const { users } = (await call('GET', '/public/users')).json()
    const wanted = users.filter(({ distinct_id }: { distinct_id: string }) => distinct_id === 'exact')
    const found = await call('GET', '/public/users?search=exac')
    t.strictSame(found.json(), { status: 1, error: null, users: wanted, page: 1, limit: 50, hasMore: false })
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
    for (const none of ['half', '1e400', '456789', 'd800', '","', 'u00e9'])
      t.strictSame(await search(client, none), [], none)
  })

  t.test('finds any text of a profile by any part of it', async () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(text, text, text, async (before, sought, after) => {
        await identify('any', { text: before + sought + after })
        // No assertion of tap's: the texts would be in its output, which it parses.
        return (await search(client, sought)).includes('any')
      }),
      { numRuns: 10 },
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
    await track('many')
    for (let i = 0; i < 1005; i += 67) {
      await Promise.all(Array.from({ length: 67 }, (_, n) => alias('many', `many-${i + n}`)))
    }
    const many = await of('many')
    t.same([many.aliases.length, new Set(many.aliases).size, many.hasMore], [1000, 1000, true])
  })
})

t.test('several shards', async (t) => {
  const nodes = (await startNodes(t, 2)) as [Node, Node]
  const redis = await startRedis(t)
  const env = { PUBLIC_API_KEY: 'pk_test_public_key', SECRET_KEY, LOG_LEVEL: 'silent', PORT: '0', LANES: '2' }
  const client = await startApp(t, { ...env, REDIS_URL: redis.url, CLICKHOUSE_URL: shardsUrl(nodes) })
  await findsUsers(t, client)
})
