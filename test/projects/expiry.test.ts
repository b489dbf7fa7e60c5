import t from 'tap'
import { command } from '../../src/cli/dead-letters.js'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import type { Session } from '../../src/model/session.js'
import { Expiry } from '../../src/projects/expiry.js'
import { changeProject, Projects } from '../../src/projects/projects.js'
import { insertDeadLetter } from '../../src/store/dead-letters.js'
import { insertEvents } from '../../src/store/events.js'
import { deleteExpiredSessions, findUnseenProfiles } from '../../src/store/expiry.js'
import { claimJobTurn } from '../../src/store/job-turns.js'
import { openStore } from '../../src/store/open.js'
import { run } from '../cli/lanes-store.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { type Client, LANES, SECRET_KEY, settingsFor, silent, startApp, startRedis, until } from '../helper.js'
import { addressOf, openStream } from '../live-stream.js'
import { shardsUrl, startNodes } from '../nodes.js'
import { newProject } from '../shared-app.js'
import { emptyClickHouse } from '../shared-engine.js'

const DAY_MS = 86_400_000
const OLD = 'expired-user'

/** Every read of the project's events, each a path and perhaps a body. */
function reads(ids: { event: string }): [string, object?][] {
  const range = { from: 0, to: Date.now() + DAY_MS }
  const series = { kind: 'series', ...range, interval: 'none', series: [{ event: '*' }], breakdown: ['distinct_id'] }
  return [
    ['/public/events?limit=1000'],
    ['/public/events?limit=1000&order=desc'],
    [`/public/events?limit=1000&distinct_id=${OLD}`],
    ['/public/events?limit=1000&format=ndjson'],
    ['/public/events?limit=1000&format=csv'],
    [`/public/events/${ids.event}`],
    ['/public/export?format=ndjson'],
    [`/public/users/${OLD}/export`],
    ['/public/sessions?limit=100'],
    [`/public/sessions?limit=100&distinct_id=${OLD}`],
    ['/public/sessions/expired-session'],
    ['/public/schema/events'],
    ['/public/query', series],
    ['/public/query', { kind: 'funnel', ...range, steps: [{ event: 'old' }, { event: 'old too' }] }],
    ['/public/query', { kind: 'paths', ...range, start: 'old' }],
    ['/public/query', { kind: 'users', of: series, cell: { series: 0, breakdown: [OLD] } }],
  ]
}

async function read({ call }: Client, [path, body]: [string, object?]) {
  const { body: text } = await call(body ? 'POST' : 'GET', path, body)
  return text
}

async function check(client: Client, t: import('tap').Test) {
  const { call } = client
  const ok = async (...args: Parameters<typeof call>) => {
    const response = await call(...args)
    if (response.statusCode !== 200) throw new Error(`${args[1]}: ${response.body}`)
    return response
  }
  const now = Date.now()
  const old = { event: 'old', distinct_id: OLD, timestamp: now - 40 * DAY_MS, properties: { is: 'expired' } }
  const first = String(
    (await ok('POST', '/public/track', { event: 'first', distinct_id: 'bob' })).headers['x-event-id'],
  )
  const event = String((await ok('POST', '/public/track', old)).headers['x-event-id'])
  await ok('POST', '/public/track/batch', {
    events: [
      { ...old, event: 'old too', timestamp: old.timestamp + 1 },
      { event: 'new', distinct_id: 'bob', timestamp: now - 20 * DAY_MS },
    ],
  })
  const before = await Promise.all(reads({ event }).map((one) => read(client, one)))
  for (const [i, text] of before.entries()) {
    const [path] = reads({ event })[i] ?? []
    if (!path?.includes('session')) t.match(text, /old|expired/, `${path} has it`)
  }
  const changed = await ok('PATCH', '/public/project', { keep: { events: '30d' } })
  t.match(changed.json(), { project: { keep: { events: '30d', sessions: null }, revision: 1 } })
  for (const one of reads({ event })) {
    const text = await read(client, one)
    t.notMatch(
      text.replaceAll(`"start":{"event":"old"`, '').replaceAll(/"query":.*/g, ''),
      /"old|,old|"expired"/,
      `${JSON.stringify(one)} has nothing of it`,
    )
  }
  t.match(await read(client, ['/public/events?limit=1000']), /"event":"new"/)
  const stream = await openStream(t, await addressOf(client), { lastEventId: first })
  const [streamed] = await stream.until(1)
  t.match(streamed?.data, /"event":"new"/, 'a live stream that resumes leaves it out')
  stream.close()
  await ok('PATCH', '/public/project', { keep: { events: '60d' } })
  t.match(await read(client, ['/public/events?limit=1000']), /"event":"old"/, 'until it leaves the disk')
}

t.test('events that have expired are refused with too_old by every call', async (t) => {
  const client = await newProject()
  const { call, keys } = client
  const now = Date.now()
  await call('PATCH', '/public/project', { keep: { events: '30d' } })
  const event = (days: number) => ({ event: 'e', distinct_id: 'u', timestamp: now - days * DAY_MS })
  const refused = (response: Awaited<ReturnType<typeof call>>, ...paths: string[]) => {
    t.equal(response.statusCode, 400)
    const { code, details } = response.json()
    t.equal(code, 'too_old')
    t.strictSame(
      details.map(({ path }: { path: string }) => path),
      paths,
    )
  }
  refused(await call('POST', '/public/track', event(31)), '/timestamp')
  // The scanner does not support fractions, so these are parsed.
  refused(await call('POST', '/public/track', { ...event(31), timestamp: event(31).timestamp + 0.5 }), '/timestamp')
  // A field of this name means nothing in a single event.
  for (const other of [[], 5, [event(1)]]) {
    refused(await call('POST', '/public/track', { ...event(31), events: other }), '/timestamp')
    refused(
      await call('POST', '/public/track', { ...event(31), timestamp: event(31).timestamp + 0.5, events: other }),
      '/timestamp',
    )
  }
  const events = [event(29), event(31), { event: 'e', distinct_id: 'u' }, event(400)]
  refused(await call('POST', '/public/track/batch', { events }), '/events/1/timestamp', '/events/3/timestamp')
  const lines = events.map((one) => `${JSON.stringify(one)}\n`).join('')
  refused(
    await call('POST', '/public/import', lines, { 'content-type': 'application/x-ndjson' }),
    '/events/1/timestamp',
    '/events/3/timestamp',
  )
  t.equal((await call('POST', '/public/track/batch', { events: [event(29)] })).statusCode, 200)
  const single = await call(
    'POST',
    '/segment/v1/batch',
    {
      batch: [31, 1].map((days) => ({
        type: 'track',
        event: 'sdk',
        userId: 'u',
        messageId: `m${days}`,
        timestamp: new Date(now - days * DAY_MS).toISOString(),
      })),
    },
    { authorization: `Basic ${Buffer.from(`${keys.secret}:`).toString('base64')}` },
  )
  t.equal(single.statusCode, 200)
  t.strictSame((await client.events()).map(({ event }) => event).sort(), ['e', 'sdk'])
  const { dead_letters } = (await call('GET', '/public/dead-letters')).json()
  t.match(JSON.stringify(dead_letters), /is before the earliest time for which the project keeps events/)
})

t.test('a repetition of an event that has expired since is answered like the first request', async (t) => {
  let ahead = 0
  const client = await startApp(
    t,
    { ...(await settingsFor(t, 'lanes')), FACTS: 'off' },
    { now: () => Date.now() + ahead },
  )
  const { call } = client
  await call('PATCH', '/public/project', { keep: { events: '1d' } })
  const timestamp = Date.now() - DAY_MS + 600_000
  const event = { event: 'e', distinct_id: 'u', timestamp }
  const named = (...ids: string[]) => ids.map((insert_id) => ({ ...event, insert_id }))
  const ndjson = { 'content-type': 'application/x-ndjson' }
  const segment = (messageId: string) => {
    const body = { event: 'e', userId: 'u', messageId, timestamp: new Date(timestamp).toISOString() }
    return ['/segment/v1/track', body] as const
  }
  const requests: (readonly [string, object | string, object?])[] = [
    ['/public/track', { ...event, insert_id: 'one' }],
    ['/public/track', { ...event, timestamp: timestamp + 0.5, insert_id: 'parsed' }],
    ['/public/track', event, { 'idempotency-key': 'one' }],
    ['/public/track/batch', { events: named('two', 'three', 'two') }],
    ['/public/track/batch', { events: [...named('four'), { event: 'e', distinct_id: 'u', insert_id: 'young' }] }],
    ['/public/track/batch', { events: [event, ...named('five')] }, { 'idempotency-key': 'batch' }],
    [
      '/public/import',
      named('six', 'seven')
        .map((one) => JSON.stringify(one))
        .join('\n'),
      ndjson,
    ],
    segment('eight'),
  ]
  const firsts = []
  for (const request of requests) firsts.push(await call('POST', ...request))
  t.ok(firsts.every(({ statusCode }) => statusCode === 200))
  const begunAt = Date.now()
  const older = { ...event, timestamp: timestamp - DAY_MS }
  const findRefused = async (storedBefore: number) => {
    const path = `/public/track/batch?stored_before=${storedBefore}`
    const { details } = (await call('POST', path, { events: [older, event] })).json()
    return details.map(({ path }: { path: string }) => path)
  }
  t.strictSame(await findRefused(begunAt), ['/events/0/timestamp'])
  ahead = 1_200_000
  t.strictSame(await findRefused(begunAt), ['/events/0/timestamp'], 'an import that resumes meets the same refusals')
  t.equal((await findRefused(begunAt + DAY_MS)).length, 2, 'a time in the future means now')
  for (const [i, request] of requests.entries()) {
    const again = await call('POST', ...request)
    const name = JSON.stringify(request)
    t.equal(again.statusCode, 200, `${name}: ${again.body}`)
    t.equal(again.body, firsts[i]?.body, name)
    if (i === 2) t.equal(again.headers['x-event-id'], firsts[i]?.headers['x-event-id'])
  }
  const mixed = { events: [...named('one', 'four'), { event: 'e', distinct_id: 'u', insert_id: 'new' }] }
  t.equal((await call('POST', '/public/track/batch', mixed)).statusCode, 200, 'in another batch')
  const others: [string, object | string][] = [
    ['/public/track', { ...event, insert_id: 'other' }],
    ['/public/track', event],
    ['/public/track/batch', { events: named('one', 'other') }],
    ['/public/track/batch', { events: [...named('one'), event] }],
  ]
  for (const [path, body] of others) {
    const refused = await call('POST', path, body)
    t.equal(refused.json().code, 'too_old', `${path} ${JSON.stringify(body)}`)
  }
  t.strictSame((await call('GET', '/public/dead-letters')).json().dead_letters, [])
  await call('POST', ...segment('nine'))
  t.equal((await call('GET', '/public/dead-letters')).json().dead_letters.length, 1)
  t.strictSame((await client.events()).map(({ insert_id }) => insert_id).sort(), ['new', 'young'])
})

for (const storage of LANES) {
  t.test(`${storage}: expired data leaves the disk, and nothing else does`, async (t) => {
    let ahead = 0
    const env = { ...(await settingsFor(t, storage)), FACTS: 'off' }
    const client = await startApp(t, env, { now: () => Date.now() + ahead, expiryEveryMs: 1_000 })
    const { call } = client
    const { clickhouse, shards, close } = await openStore(client.config)
    t.teardown(close)
    const ok = async (...args: Parameters<typeof call>) => {
      const response = await call(...args)
      if (response.statusCode !== 200) throw new Error(`${args[1]}: ${response.body}`)
      return response
    }
    await ok('POST', '/public/users/identify', { distinct_id: 'ann', properties: { a: 1 } })
    await ok('POST', '/public/users/identify', { distinct_id: 'bob', properties: { a: 1 } })
    await ok('POST', '/public/users/identify', { distinct_id: 'carl', properties: { a: 1 } })
    await ok('POST', '/public/users/identify', { distinct_id: 'carls-laptop', properties: { b: 2 } })
    for (const alias of ['carls-phone', 'carls-laptop'])
      await ok('POST', '/public/users/alias', { distinct_id: 'carl', alias })
    await client.browser('/public/sessions/start', { distinct_id: 'ann', session_id: 'ann-session' })
    const track = (event: string, distinct_id: string, timestamp: number) =>
      ok('POST', '/public/track', { event, distinct_id, timestamp })
    const began = Date.now()
    await track('old', 'ann', began - 5 * DAY_MS)
    await track('new', 'bob', began + 100 * DAY_MS)
    await track('new', 'carls-phone', began + 100 * DAY_MS)
    const old = JSON.stringify({
      events: [
        { event: 'old', distinct_id: 'x', timestamp: began },
        { event: 'new', distinct_id: 'x' },
      ],
    })
    const entry = {
      position: BigInt(began) << 16n,
      kind: 'events',
      projectId: 'default',
      count: 2,
      body: Buffer.from(old),
    } as const
    await insertDeadLetter(clickhouse, 7, { ...entry, receivedAt: began + 100 * DAY_MS }, 'ClickHouse error 27', 'late')
    const preview = await ok('PATCH', '/public/project', { keep: { events: '1d' }, dry_run: true })
    t.match(preview.json(), {
      project: { keep: { events: '1d' }, revision: 0 },
      expired: {
        events: { count: 1, from: began - 5 * DAY_MS, to: began - 5 * DAY_MS, bytes: Number },
        sessions: { count: 0 },
      },
    })
    await ok('PATCH', '/public/project', { keep: { events: '90d', sessions: '90d', profiles: '90d' } })
    ahead = 101 * DAY_MS
    t.strictSame(
      (await client.events()).map(({ event }) => event),
      ['new', 'new'],
    )
    t.equal((await call('GET', '/public/sessions?limit=10')).json().sessions.length, 0)
    const ALL = { apply_deleted_mask: 0, apply_patch_parts: 0 } as const
    await until('it to leave the disk', async () => {
      const left = await shards.each(({ clickhouse }) => clickhouse.rows('SELECT event FROM events', {}, ALL))
      return left.flat().length === 2
    })
    await until('the profile to go', async () => (await call('GET', '/public/users/ann')).statusCode === 404)
    t.strictSame(await clickhouse.rows('SELECT session_id FROM sessions'), [])
    t.equal((await call('GET', '/public/users/bob')).statusCode, 200)
    t.equal((await call('GET', '/public/users/carl')).statusCode, 200, 'seen under another name')
    await ok('DELETE', '/public/users/carl/aliases/carls-laptop')
    const laptop = (await call('GET', '/public/users/carls-laptop')).json().user
    t.strictSame(laptop?.properties, { b: 2 }, 'the own profile of an alias is as old as its user')
    const [letter] = await clickhouse.rows<{ body: string }>('SELECT body FROM dead_letters')
    t.equal(letter?.body, '{"events":[{"event":"","distinct_id":""},{"event":"new","distinct_id":"x"}]}')
  })
}

t.test('what a removal will remove is counted as it will be then', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const began = Date.now()
  const client = await startApp(t, env, { now: () => Date.now() + 20 * DAY_MS })
  const { call } = client
  const { clickhouse, close } = await openStore(client.config)
  t.teardown(close)
  for (const distinct_id of ['ann', 'bob', 'carl', 'dan'])
    await call('POST', '/public/users/identify', { distinct_id, properties: { a: 1 } })
  const group = await call('POST', '/mixpanel/groups', [{ $group_key: 'company', $group_id: 'acme', $set: { a: 1 } }])
  t.equal(group.statusCode, 200, group.body)
  await call('POST', '/public/track', { event: 'e', distinct_id: 'ann', timestamp: began + 10 * DAY_MS })
  const store = (session: string, user: string, days: number) =>
    clickhouse.command(`INSERT INTO sessions (project_id, session_id, distinct_id, state, properties, updated_at, version)
      VALUES ('default', '${session}', '${user}', 'active', '{}', ${began + days * DAY_MS}, ${days + 1})`)
  await store('short', 'bob', 10)
  await store('long', 'dan', 0)
  await store('long', 'dan', 19)
  const find = async (keep: object) => {
    const { expired } = (await call('PATCH', '/public/project', { keep, dry_run: true })).json()
    return [expired.events.count, expired.sessions.count, expired.profiles.count]
  }
  const profiles = '15d'
  t.strictSame(await find({ profiles }), [0, 0, 1], 'only carl was not seen; a group cannot be')
  t.strictSame(await find({ events: '5d', profiles }), [1, 0, 2], 'nor will ann have been, without her event')
  t.strictSame(await find({ sessions: '5d', profiles }), [0, 1, 2], 'nor bob, without his session')
  t.strictSame(await find({ events: '30d', sessions: '30d', profiles }), [0, 0, 1])
  const before = began + 15 * DAY_MS
  const removed = await deleteExpiredSessions(clickhouse, 'default', before, AbortSignal.timeout(60_000))
  t.equal(removed, 1, 'earlier versions of a session are not sessions')
  t.strictSame(await clickhouse.rows('SELECT session_id FROM sessions FINAL'), [{ session_id: 'long' }])
})

t.test('no response contains expired data, over several lanes and shards', async (t) => {
  const nodes = await startNodes(t, 2)
  const redis = await startRedis(t)
  const env = { SECRET_KEY, LOG_LEVEL: 'silent', LANES: '3', REDIS_URL: redis.url, FACTS: 'off' }
  const client = await startApp(t, { ...env, CLICKHOUSE_URL: shardsUrl(nodes) })
  await check(client, t)
  const { shards, close } = await openStore(client.config)
  t.teardown(close)
  const { call } = client
  for (const distinct_id of ['ann', 'her laptop'])
    await call('POST', '/public/users/identify', { distinct_id, properties: { a: 1 } })
  await call('POST', '/public/users/alias', { distinct_id: 'ann', alias: 'her laptop' })
  const tomorrow = Date.now() + DAY_MS
  const findUnseen = async (project = 'default') => {
    await client.events()
    return (await findUnseenProfiles(shards, project, { profiles: tomorrow }, 10)).sort()
  }
  t.strictSame(await findUnseen(), ['ann', 'her laptop'])
  await call('POST', '/public/track', { event: 'e', distinct_id: 'ann', timestamp: tomorrow })
  t.strictSame(await findUnseen(), [], 'a user and its aliases are seen together')
  // As while the names of a user that has become an alias are being redirected.
  const { clickhouse: other } = shards.at(1)
  await shards.first.command(`INSERT INTO aliases (project_id, alias, distinct_id, created_at, step_at, version)
    VALUES ('chain', 'her phone', 'ann', 1, 0, 1), ('chain', 'ann', 'anna', 2, 1, 1)`)
  await other.command(`INSERT INTO profiles (project_id, distinct_id, properties, updated_at, version)
    VALUES ('chain', 'anna', '{}', 1, 1), ('chain', 'her phone', '{}', 1, 1)`)
  t.strictSame(await findUnseen('chain'), ['anna', 'her phone'])
  await other.command(`INSERT INTO events (project_id, event_id, event, distinct_id, timestamp)
    VALUES ('chain', '01993e00-0000-7000-8000-000000000000', 'e', 'her phone', ${tomorrow})`)
  t.strictSame(await findUnseen('chain'), [], 'at any distance')
})

t.test('a clock that jumps far ahead deletes nothing for a day, and stops nothing when it returns', async (t) => {
  const everyMs = 3_600_000
  let ahead = 0
  const client = await startApp(
    t,
    { ...(await settingsFor(t, 'embedded')), FACTS: 'off' },
    { now: () => Date.now() + ahead },
  )
  const { call } = client
  const { shards, close } = await openStore(client.config)
  t.teardown(close)
  const warnings: unknown[] = []
  let purges = 0
  const projects = new Projects({ log: silent, closing: AbortSignal.abort(), now: Date.now })
  /** Opens it as in a process that has just started. */
  const open = () =>
    new Expiry({
      projects,
      shards,
      barrier: { requireProject: async () => 0n },
      profiles: { change: async () => t.fail('no profile expires') as never },
      sessions: { change: async () => t.fail('no session expires') as never },
      noteDeletion: async () => undefined,
      purge: { now: async () => purges++ },
      log: { ...silent, warn: (...args: unknown[]) => warnings.push(args) },
      everyMs,
      now: () => Date.now() + ahead,
    })
  const expiry = open()
  const countStored = async () =>
    Number((await shards.first.rows<{ n: string }>('SELECT count() AS n FROM events'))[0]?.n)
  const track = async (days: number) => {
    const timestamp = Date.now() - days * DAY_MS
    t.equal((await call('POST', '/public/track', { event: 'e', distinct_id: 'u', timestamp })).statusCode, 200)
  }
  await track(40)
  await track(20)
  await track(1)
  t.equal((await client.events()).length, 3)
  await call('PATCH', '/public/project', { keep: { events: '30d' } })
  const body = Buffer.from(JSON.stringify({ events: [{ event: 'e', distinct_id: 'u', timestamp: 1 }] }))
  const entry = { position: BigInt(Date.now()) << 16n, kind: 'events', projectId: 'other', count: 1, body } as const
  await insertEvents(shards.first, 7, [{ ...entry, receivedAt: Date.now() }], 'other', AbortSignal.timeout(60_000))
  await changeProject(shards, 'other', { keep: { events: '30d' } }, { by: { type: 'command_line' } })
  await projects.start(shards)
  await expiry.run()
  t.equal(await countStored(), 2)
  t.equal(purges, 1, 'one for all projects')
  ahead = 400 * DAY_MS
  const restarted = open()
  for (let hour = 0; hour < 24; hour++) {
    await (hour < 12 ? expiry : restarted).run()
    // The time of this change comes from the same clock.
    if (hour === 5) {
      await call('PATCH', '/public/project', { name: 'changed' })
      await projects.start(shards)
    }
    ahead += everyMs
  }
  t.equal(await countStored(), 2, 'nothing is deleted in a day')
  t.equal(warnings.length, 2, 'once per process')
  t.equal((await call('GET', '/public/dead-letters')).statusCode, 200)
  await restarted.run()
  t.equal(await countStored(), 0, 'then the clock is trusted')
  ahead = 2 * everyMs
  await track(29.5)
  t.equal((await client.events()).length, 1)
  ahead = 20 * everyMs
  await expiry.run()
  t.equal(await countStored(), 0, 'a clock that is set back does not stop the removal')
  ahead += 8 * everyMs
  await track(20)
  t.equal((await client.events()).length, 1)
  await call('PATCH', '/public/project', { keep: { events: '10d' } })
  await projects.start(shards)
  await call('PATCH', '/public/project', { keep: { events: '30d' } })
  await expiry.run()
  t.equal(await countStored(), 1, 'a longer age counts although this process does not know it yet')
})

t.test('data that is to be kept for longer survives a removal that is running', async (t) => {
  const { clickhouse, url } = await emptyClickHouse()
  const shards = Shards.of(clickhouse)
  const proxy = await TcpProxy.open(t, url)
  const proxied = new ClickHouse({ url: proxy.url })
  t.teardown(() => proxied.close())
  for (const at of [Date.UTC(2024, 0, 15), Date.UTC(2024, 1, 15)]) {
    const body = Buffer.from(JSON.stringify({ events: [{ event: 'e', distinct_id: 'u', timestamp: at }] }))
    const entry = { position: BigInt(at) << 16n, kind: 'events', projectId: 'a', count: 1, receivedAt: at } as const
    await insertEvents(clickhouse, 7, [{ ...entry, body }], `${at}`, AbortSignal.timeout(60_000))
  }
  const keep = (events: string) => changeProject(shards, 'a', { keep: { events } }, { by: { type: 'command_line' } })
  await keep('1y')
  await claimJobTurn(shards, 'retention', Date.now() - 3_600_000)
  const projects = new Projects({ log: silent, closing: AbortSignal.abort(), now: Date.now })
  await projects.start(shards)
  const expiry = new Expiry({
    projects,
    shards: Shards.of(proxied),
    barrier: { requireProject: async () => 0n },
    profiles: { change: async () => t.fail('no profile expires') as never },
    sessions: { change: async () => t.fail('no session expires') as never },
    noteDeletion: async () => undefined,
    purge: { now: async () => 0 },
    log: silent,
  })
  const { held, release } = proxy.hold('DELETE FROM events')
  const running = expiry.run()
  await held
  await keep('20y')
  await release()
  await running
  const months = await clickhouse.rows('SELECT DISTINCT _partition_id AS month FROM events')
  t.strictSame(months, [{ month: '202402' }])
})

t.test('calls with the id of an expired event do not find it', async (t) => {
  let ahead = 0
  const client = await startApp(
    t,
    { ...(await settingsFor(t, 'embedded')), FACTS: 'off' },
    { now: () => Date.now() + ahead },
  )
  const { call, browser } = client
  const session = { distinct_id: 'ann', session_id: 's' }
  await browser('/public/sessions/start', { ...session, properties: { from: 'before' } })
  const timestamp = Date.now() - 40 * DAY_MS
  const tracked = await call('POST', '/public/track', { event: 'old', distinct_id: 'ann', timestamp })
  const path = `/public/events/${tracked.headers['x-event-id']}`
  t.equal((await call('PUT', path, { properties: { a: 1 } })).statusCode, 200)
  await call('PATCH', '/public/project', { keep: { events: '30d', sessions: '30d' } })
  for (const [method, body] of [['GET'], ['PUT', { properties: {} }], ['DELETE']] as const) {
    t.equal((await call(method, path, body)).statusCode, 404, `${method} of an event`)
  }
  t.equal((await call('GET', '/public/sessions/s')).statusCode, 200)
  ahead = 31 * DAY_MS
  t.equal((await call('GET', '/public/sessions/s')).statusCode, 404, 'GET of a session')
  ahead = 0
  t.equal((await call('GET', '/public/sessions/s')).statusCode, 200)
  ahead = 31 * DAY_MS
  await browser('/public/sessions/start', { ...session, distinct_id: 'bob', properties: { to: 'after' } })
  ahead = 0
  t.match((await call('GET', '/public/sessions/s')).json().session, { distinct_id: 'bob', properties: { to: 'after' } })
  t.notMatch((await call('GET', '/public/sessions/s')).body, /before/, 'a session with its id is a new one')
})

t.test('nothing is read before the service knows what has expired', async (t) => {
  const env = { ...(await settingsFor(t, 'servers')), FACTS: 'off' }
  const now = Date.now()
  const before = await startApp(t, env)
  const { call, browser } = before
  const tracked = await call('POST', '/public/track', { event: 'old', distinct_id: OLD, timestamp: now - 40 * DAY_MS })
  await call('PATCH', '/public/project', { keep: { events: '30d', sessions: '30d' } })
  const { clickhouse, close } = await openStore(before.config)
  t.teardown(close)
  await clickhouse.command(`INSERT INTO sessions (project_id, session_id, distinct_id, state, properties, updated_at, version)
    VALUES ('default', 'expired-session', '${OLD}', 'active', '{"is":"expired"}', ${now - 40 * DAY_MS}, 1)`)
  await browser('/public/sessions/start', { session_id: 'new', distinct_id: 'ann' })
  t.strictSame(await before.events(), [])
  t.match((await call('GET', '/public/sessions')).json(), { sessions: [{ session_id: 'new' }] }, 'all is stored')
  await before.app.close()
  await clickhouse.command('RENAME TABLE projects TO projects_away')
  const client = await startApp(t, env)
  for (const [path, body] of reads({ event: String(tracked.headers['x-event-id']) })) {
    const response = await client.call(body ? 'POST' : 'GET', path, body)
    t.match(response, { statusCode: 503, body: /The settings of the project cannot be read yet/ }, path)
  }
  const path = `/public/events/${tracked.headers['x-event-id']}`
  t.equal((await client.call('PUT', path, { properties: { is: 'edited' } })).statusCode, 503)
  t.equal((await client.call('DELETE', path)).statusCode, 503)
  const update = async (session_id: string, distinct_id: string) =>
    (await client.browser('/public/sessions/update', { session_id, distinct_id })).statusCode
  t.equal(await update('expired-session', OLD), 503)
  t.equal(await update('new', 'ann'), 200, 'this one cannot have expired')
  t.equal((await client.call('GET', '/public/sessions/new')).statusCode, 200)
  await clickhouse.command('RENAME TABLE projects_away TO projects')
  await until('the settings', async () => (await client.call('GET', '/public/events')).statusCode === 200)
  t.strictSame(await client.events(), [])
})

t.test('expired sessions are removed from dead letters, and from the journal', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const client = await startApp(t, env)
  const { call } = client
  const { clickhouse, shards, close } = await openStore(client.config)
  t.teardown(close)
  const row = (project_id: string, session_id: string, days: number, is_deleted = 0) => {
    const updated_at = is_deleted ? 0 : Date.now() - days * DAY_MS
    return JSON.stringify({ project_id, session_id, distinct_id: 'ann', updated_at, is_deleted })
  }
  const write = async (position: number, ...rows: string[]) => {
    const body = Buffer.from(rows.join(','))
    const entry = { position: BigInt(position) << 16n, kind: 'sessions', projectId: '', count: 1, body } as const
    await insertDeadLetter(clickhouse, 7, { ...entry, receivedAt: 1 }, 'ClickHouse error 27', `${position}`)
  }
  const [young, deleted, foreign] = [row('default', 'young', 20), row('default', 'gone', 0, 1), row('other', 's', 40)]
  await write(1, row('default', 'expired', 40), young, deleted, foreign)
  await write(2, row('default', 'expired too', 40))
  await call('PATCH', '/public/project', { keep: { sessions: '30d' } })
  await claimJobTurn(shards, 'retention', Date.now() - 3_600_000)
  const projects = new Projects({ log: silent, closing: AbortSignal.abort(), now: Date.now })
  await projects.start(shards)
  const removed: string[] = []
  const old = { updatedAt: Date.now() - 40 * DAY_MS } as Session
  const expiry = new Expiry({
    projects,
    shards,
    barrier: { requireProject: async () => 0n },
    profiles: { change: async () => t.fail('no profile expires') as never },
    sessions: {
      change: async (projectId, name, change) => {
        t.equal(projectId, 'default')
        t.not(change({ ...old, updatedAt: Date.now() }), null, 'it may have been started again')
        if (change(old) === null) removed.push(name)
        return null as never
      },
    },
    noteDeletion: async () => undefined,
    purge: { now: async () => 0 },
    log: silent,
  })
  await expiry.run()
  t.strictSame(removed.sort(), ['expired', 'expired too'])
  const left = await clickhouse.rows('SELECT body FROM dead_letters')
  t.strictSame(left, [{ body: [young, deleted, foreign].join(',') }])
})

t.test('dead letters show and store no expired events', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const client = await startApp(t, env)
  const { call } = client
  const { clickhouse, shards, close } = await openStore(client.config)
  t.teardown(close)
  const now = Date.now()
  const write = async (position: number, kind: 'events' | 'profiles', receivedAt: number, body: string) => {
    const entry = { position: BigInt(position) << 16n, kind, projectId: 'default', count: 2, body: Buffer.from(body) }
    await insertDeadLetter(clickhouse, 7, { ...entry, receivedAt }, 'ClickHouse error 27', `${position}`)
  }
  const events = (...list: object[]) => JSON.stringify({ events: list.map((one) => ({ distinct_id: 'x', ...one })) })
  const days = (n: number) => now - n * DAY_MS
  await write(
    1,
    'events',
    days(1),
    events({ event: 'expired', timestamp: days(40) }, { event: 'young', timestamp: days(20) }),
  )
  await write(2, 'events', days(40), events({ event: 'expired' }))
  await write(3, 'events', days(40), events({ event: 'expired' }, { event: 'ahead of its time', timestamp: now }))
  const profile = {
    project_id: 'default',
    distinct_id: 'ann',
    version: 1,
    properties: {},
    created_at: 1,
    updated_at: 1,
  }
  await write(4, 'profiles', days(40), JSON.stringify(profile))
  // ClickHouse's parser refuses these values, and so the whole entry.
  const refused = (value: string, ...list: object[]) =>
    events(...list).replace(/}]}$/, `,"properties":{"refused":${value}}}]}`)
  const youngToo = { event: 'young too', timestamp: days(20) }
  await write(5, 'events', days(1), refused('1e400', { event: 'expired', timestamp: days(40) }, youngToo))
  await write(
    6,
    'events',
    days(40),
    refused('"\\ud800"', { event: 'expired' }, { event: 'ahead, too', timestamp: now }),
  )
  await write(7, 'events', days(40), refused('123456789012345678901', { event: 'expired' }))
  await write(8, 'events', days(40), '{"events":[{"event":"expired"')
  await call('PATCH', '/public/project', { keep: { events: '30d' } })
  const shown = await run(command, ['list', '--json'], { ...process.env, ...env })
  t.equal(shown.printed.trim().split('\n').length, 5, 'the command removes those that have expired as a whole')
  await write(9, 'events', days(1), events({ event: 'expired', timestamp: days(40) }))
  const { dead_letters } = (await call('GET', '/public/dead-letters')).json()
  t.notMatch(JSON.stringify(dead_letters), /expired/)
  const kinds = await clickhouse.rows<{ kind: string }>('SELECT kind FROM dead_letters ORDER BY position')
  t.strictSame(
    kinds.map(({ kind }) => kind),
    ['events', 'events', 'profiles', 'events', 'events'],
    'a profile is no event',
  )
  const ids = dead_letters.map(({ id }: { id: string }) => id)
  t.match((await call('POST', '/public/dead-letters/replay', { ids })).json(), { replayed: 5, refused: [] })
  const stored = await shards.first.rows<{ event: string }>('SELECT event FROM events ORDER BY event')
  t.strictSame(
    stored.map(({ event }) => event),
    ['ahead of its time', 'ahead, too', 'young', 'young too'],
  )
})
