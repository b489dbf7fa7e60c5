import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { replayDeadLetter } from '../../src/ingest/replay.js'
import type { EntryKind } from '../../src/journal/journal.js'
import { formatPosition, type Position } from '../../src/model/position.js'
import { parseProperties } from '../../src/model/properties.js'
import { toRequestContext } from '../../src/model/request-context.js'
import { keepVerbatim } from '../../src/model/verbatim.js'
import { eraseFromDeadLetters } from '../../src/store/dead-letter-erasure.js'
import { countDeadLetters, insertDeadLetter, readDeadLetters } from '../../src/store/dead-letters.js'
import { insertEvents } from '../../src/store/events.js'
import { openStore } from '../../src/store/open.js'
import { PROFILES } from '../../src/store/profiles.js'
import { SESSIONS } from '../../src/store/sessions.js'
import { clickHouseError, TcpProxy } from '../delivery/tcp-proxy.js'
import { settingsFor, startApp, startClickHouse, until } from '../helper.js'
import { newProject } from '../shared-app.js'

const JOURNAL = 7

let at = 1_760_000_000_000
let shared: ReturnType<typeof openService> | undefined

/** A service whose requests to ClickHouse can be delayed. */
async function openService(t: Test) {
  const engine = await startClickHouse(t)
  const proxy = await TcpProxy.open(t, engine.url)
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off', CLICKHOUSE_URL: proxy.url }
  const service = await startApp(t, env)
  const { clickhouse, shards, close } = await openStore(service.config)
  t.teardown(close)
  return { service, proxy, clickhouse, shards }
}

function openShared() {
  shared ??= openService(t)
  return shared
}

/** A project of a service. @param own default: the service that the tests share */
async function start(own?: ReturnType<typeof openService>) {
  const { service, ...rest } = await (own ?? openShared())
  const client = await newProject(service)
  /** Stores a dead letter like the writer. */
  const leave = async (kind: EntryKind, body: string): Promise<Position> => {
    const position = BigInt(++at) << 16n
    const projectId = kind === 'events' ? client.projectId : ''
    const entry = { position, kind, projectId, count: 1, receivedAt: at, body: Buffer.from(body) }
    await insertDeadLetter(rest.clickhouse, JOURNAL, entry, 'ClickHouse error 27', `${at}`)
    return position
  }
  const erase = (user: string) => client.call('POST', '/public/users/erase', { distinct_ids: [user] })
  return { ...rest, client, projectId: client.projectId, leave, erase }
}

t.test('a user is erased while a dead letter with events is replayed', async (t) => {
  const { client, proxy, leave, erase } = await start()
  const { call, events } = client
  const leaveEvents = async (...users: string[]) => {
    const body = JSON.stringify({ events: users.map((distinct_id) => ({ event: 'old', distinct_id })) })
    return formatPosition(await leave('events', body))
  }
  const replay = (id: string) => call('POST', '/public/dead-letters/replay', { ids: [id] })
  const owners = async () => (await events()).map(({ distinct_id }) => distinct_id).sort()
  const steps = {
    'before its letters are looked for': 'DISTINCT position, journal_id, kind FROM dead_letters',
    'before its events are counted': 'distinct_id, count() AS count FROM events',
  }
  for (const [when, text] of Object.entries(steps)) {
    const id = await leaveEvents('zoe', `after ${when}`)
    const { held, release } = proxy.hold(text)
    const erased = erase('zoe')
    await held
    await replay(id)
    await release()
    t.equal((await erased).statusCode, 200)
    t.notOk((await owners()).includes('zoe'), when)
  }

  for (const users of [['zoe', 'yves'], ['zoe']]) {
    const id = await leaveEvents(...users)
    const { held, release } = proxy.hold('INSERT+INTO+events')
    const replayed = replay(id)
    await held
    t.match((await erase('zoe')).json(), { erased: [{ dead_letters: 1 }] })
    await call('POST', '/public/users/identify', { distinct_id: 'zoe' })
    await release()
    t.match((await replayed).json(), { replayed: 1 })
    t.notOk((await owners()).includes('zoe'), `an INSERT of ${users}`)
  }
  t.ok((await owners()).includes('yves'), 'the others of the letter stay')

  await t.test('and the client that asked for the replay disconnects', async (t) => {
    const url = await client.app.listen({ port: 0, host: '127.0.0.1' })
    const id = await leaveEvents('zoe')
    const { held, release } = proxy.hold('INSERT+INTO+events')
    const hangUp = new AbortController()
    const replayed = fetch(`${url}/public/dead-letters/replay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': client.keys.secret },
      body: JSON.stringify({ ids: [id] }),
      signal: hangUp.signal,
    })
    await held
    hangUp.abort()
    await t.rejects(replayed, { name: 'AbortError' })
    t.match((await erase('zoe')).json(), { erased: [{ dead_letters: 1 }] })
    await release()
    await until('the second look', async () => !(await owners()).includes('zoe'), 10_000)
  })
})

t.test('a dead letter keeps the contexts of its events, also when a user is erased from it', async (t) => {
  const { client, leave, erase } = await start()
  const entry = keepVerbatim(
    Buffer.from('{"events":[]}'),
    { isBatch: true, count: 2, events: ['zoe', 'yves'].map((distinct_id) => ({ event: 'old', distinct_id })) },
    undefined,
    toRequestContext({ browser: 'Chrome', bot: true }),
  )
  const id = formatPosition(await leave('events', entry.toString()))
  t.match((await erase('zoe')).json(), { erased: [{ dead_letters: 1 }] })
  t.match((await client.call('POST', '/public/dead-letters/replay', { ids: [id] })).json(), { replayed: 1 })
  t.match(await client.events(), [{ distinct_id: 'yves', context: { browser: 'Chrome', bot: true } }])
  t.equal((await client.events()).length, 1)
})

t.test('pages begin in the right place after a replay has deleted what an interrupted one left', async (t) => {
  const { client, projectId, clickhouse, shards, leave } = await start()
  const events = ['zoe', 'yves', 'xeno', 'will'].map((distinct_id) => ({ event: 'old', distinct_id }))
  const body = JSON.stringify({ events })
  const position = await leave('events', body)
  const entry = { position, kind: 'events' as const, projectId, count: 4, receivedAt: 1 }
  await eraseFromDeadLetters(shards, projectId, new Set(['zoe']))
  await insertEvents(clickhouse, JOURNAL, [{ ...entry, body: Buffer.from(body) }], 'late', AbortSignal.timeout(60_000))
  const page = async (number: number) => {
    const { events } = (await client.call('GET', `/public/events?limit=1&page=${number}`)).json()
    return events[0]?.distinct_id
  }
  t.strictSame([await page(1), await page(2), await page(3)], ['zoe', 'yves', 'xeno'])
  const replayed = await client.call('POST', '/public/dead-letters/replay', { ids: [formatPosition(position)] })
  t.match(replayed.json(), { replayed: 1 })
  t.strictSame([await page(3), await page(2), await page(1)], ['will', 'xeno', 'yves'])
})

const ROWS = {
  profiles: (projectId: string, user: string) => {
    return PROFILES.row(projectId, user, { properties: new Map(), createdAt: 1, updatedAt: 1 })
  },
  sessions: (projectId: string, user: string) => {
    const times = { duration: null, startedAt: 1, updatedAt: 1, endedAt: null, context: {} }
    return SESSIONS.row(projectId, `of ${user}`, {
      distinctId: user,
      state: 'active',
      properties: new Map(),
      ...times,
    })
  },
}

for (const kind of ['profiles', 'sessions'] as const) {
  t.test(`a user is erased while a dead letter with ${kind} is replayed`, async (t) => {
    // Another one would be sure by now that it knows all names, but these rows reach the store without it.
    const { projectId, proxy, clickhouse, shards, leave, erase } = await start(openService(t))
    const leaveRows = async (...users: string[]) => {
      const position = await leave(kind, users.map((user) => ROWS[kind](projectId, user)).join(','))
      const [letter] = await readDeadLetters(shards, { limit: 1, at: [position] })
      if (!letter) throw new Error('it is there')
      return () => replayDeadLetter(shards, letter, Date.now())
    }
    const stored = async () => {
      const rows = await clickhouse.rows<{ user: string }>(
        `SELECT distinct_id AS user FROM ${kind} FINAL WHERE project_id = {projectId:String} ORDER BY user`,
        { projectId },
      )
      return rows.map(({ user }) => user)
    }

    await t.test('before the dead letters are searched', async (t) => {
      const replay = await leaveRows('zoe', 'yves')
      const { held, release } = proxy.hold('DISTINCT position, journal_id, kind FROM dead_letters')
      const erased = erase('zoe')
      await held
      t.strictSame(await replay(), { isStored: true })
      await release()
      t.match((await erased).json(), { erased: [{ dead_letters: 1 }] })
      t.strictSame(await stored(), ['yves'])
    })

    for (const users of [['ada', 'xeno'], ['bob']]) {
      await t.test(`before the INSERT of ${users}`, async (t) => {
        const replay = await leaveRows(...users)
        const { held, release } = proxy.hold(`INSERT+INTO+${kind}`)
        const replayed = replay()
        await held
        t.match((await erase(users[0] ?? '')).json(), { erased: [{ dead_letters: 1 }] })
        await release()
        t.strictSame(await replayed, { isStored: true })
        t.strictSame(await stored(), ['xeno', 'yves'])
      })
    }
  })
}

t.test('a session and a profile that only dead letters and the journal have', async (t) => {
  const { client, projectId, proxy, shards, erase } = await start()
  const { call, browser } = client
  const before = await countDeadLetters(shards)
  const refusal = clickHouseError(27, 'CANNOT_PARSE_INPUT_ASSERTION_FAILED', 'Cannot parse input')
  /** Lets ClickHouse refuse one of them, in its block and then alone. */
  const leave = async (kind: 'sessions' | 'profiles', letters: number) => {
    void proxy.answer(`INSERT+INTO+${kind}`, refusal, 2)
    const zoe = { distinct_id: 'zoe', properties: { of: 'zoe' } }
    if (kind === 'profiles') await call('POST', '/public/users/identify', zoe)
    else await browser('/public/sessions/start', { ...zoe, session_id: 's' })
    await until('the letter', async () => (await countDeadLetters(shards)) === before + letters)
  }
  const leaveBoth = async () => {
    await leave('profiles', 1)
    await leave('sessions', 2)
    t.strictSame(await found(), [200, 200])
  }
  const found = async () => {
    const answers = await Promise.all(['sessions/s', 'users/zoe'].map((path) => call('GET', `/public/${path}`)))
    return answers.map(({ statusCode }) => statusCode)
  }
  await leaveBoth()
  t.match((await erase('zoe')).json(), { erased: [{ profile: true, sessions: 1, dead_letters: 2 }] })
  t.strictSame(await found(), [404, 404])
  await leaveBoth()
  t.match((await call('DELETE', `/public/projects/${projectId}`)).json(), {
    erased: { dead_letters: 2 },
    complete: true,
  })
  t.strictSame(await found(), [404, 404])
})

t.test('a dead letter of a profile that a service did not find when it started', async (t) => {
  const { client, projectId, shards, leave } = await start(openService(t))
  const { app, call } = client
  const ada = { properties: parseProperties('{"plan":"pro"}'), createdAt: 1, updatedAt: 1 }
  await leave('profiles', PROFILES.row(projectId, 'ada', ada))
  await until('the users to be known', async () => {
    await call('GET', `/public/users/${randomUUID()}`)
    const { body } = await app.inject('/metrics')
    return /tallyhouse_state_reads_total\{.*kind="profiles".*source="new".*\} [1-9]/.test(body)
  })
  const read = () => call('GET', '/public/users/ada')
  t.equal((await read()).statusCode, 404)
  for (const letter of await readDeadLetters(shards, { limit: 1 })) await replayDeadLetter(shards, letter, Date.now())
  t.match((await read()).body, '{"plan":"pro"}')
  await call('POST', '/public/users/profile', { distinct_id: 'ada', operations: { $set: { name: 'Ada' } } })
  t.match((await read()).body, '{"plan":"pro","name":"Ada"}')
})

t.test('a dead letter that lost many of its events', async (t) => {
  const { client, projectId, clickhouse, shards, leave } = await start()
  const events = Array.from({ length: 60_000 }, (_, i) => ({ event: 'old', distinct_id: i % 2 === 0 ? 'zoe' : 'yves' }))
  const body = JSON.stringify({ events })
  const stored = () =>
    clickhouse.rows(
      'SELECT distinct_id AS user, count() AS events FROM events WHERE project_id = {projectId:String} GROUP BY user',
      { projectId },
    )
  const replay = async (position: Position) => {
    return (await client.call('POST', '/public/dead-letters/replay', { ids: [formatPosition(position)] })).json()
  }

  await t.test('is replayed after all of them were stored', async (t) => {
    const position = await leave('events', body)
    const whole = { position, projectId, count: events.length, receivedAt: 1, body: Buffer.from(body) }
    await eraseFromDeadLetters(shards, projectId, new Set(['zoe']))
    await insertEvents(clickhouse, JOURNAL, [{ ...whole, kind: 'events' }], 'late', AbortSignal.timeout(60_000))
    t.match(await replay(position), { replayed: 1, refused: [] })
    t.strictSame(await stored(), [{ user: 'yves', events: '30000' }])
  })

  await t.test('is replayed before any was stored', async (t) => {
    const position = await leave('events', body)
    await eraseFromDeadLetters(shards, projectId, new Set(['zoe']))
    t.match(await replay(position), { replayed: 1, refused: [] })
    t.strictSame(await stored(), [{ user: 'yves', events: '60000' }])
  })
})
