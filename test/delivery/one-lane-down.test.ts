import t, { type Test } from 'tap'
import { randomName, type StoredEvent, until } from '../helper.js'
import { type Call, call, type Reply } from './calls.js'
import { Installation } from './installation.js'

const LANES = 3
const DOWN = 1
const CALLS = 24

/** Each service prefers another lane, so that a test knows where its events are. */
const HOMES = { lanes: LANES, services: LANES, env: (service: number) => ({ HOME_LANE: String(service) }) }

const tracked = (name: string): Call => ({
  method: 'POST',
  path: '/public/track',
  body: { event: name, distinct_id: 'u' },
})

/** Makes a call; a running service always responds. */
async function ask(url: string, what: Call): Promise<Reply> {
  const reply = await call(url, what)
  if (!reply) throw new Error(`no answer to ${what.path}`)
  return reply
}

async function names(url: string): Promise<string[]> {
  const reply = await ask(url, { path: '/public/events?limit=10000' })
  if (reply.status !== 200 || reply.body.pending > 0 || reply.body.hasMore) throw new Error(`a page is ${reply.text}`)
  return (reply.body.events as StoredEvent[]).map(({ event }) => event)
}

/**
 * Checks that a call is refused with a response that names the missing part. For half a second, another part may be
 * named, because libchdb as a server aborts when a peer resets a connection, as a killed one does.
 */
async function assertRefused(t: Test, url: string, what: Call, refusal: RegExp): Promise<void> {
  const reply = await until(`${what.path} to name ${refusal}`, async () => {
    const reply = await ask(url, what)
    return (reply.status !== 503 || refusal.test(reply.body.error)) && reply
  })
  t.equal(reply.status, 503, what.path)
  t.match(reply.body, { status: 0, code: 'unavailable', error: refusal })
  t.ok(reply.headers.get('retry-after'))
  t.notMatch(reply.text, /ECONNREFUSED|SELECT|DB::/)
}

/** Checks that a call succeeds, at the latest when an aborted ClickHouse is back. */
async function assertDone(url: string, what: Call): Promise<Reply> {
  return await until(`${what.method} ${what.path} to be done`, async () => {
    const reply = await ask(url, what)
    const isGone = what.method === 'DELETE' && reply.status === 404
    return (reply.status === 200 || isGone) && reply
  })
}

/** Checks that calls with different keys succeed or are refused, depending on the lane of the key. */
async function assertSomeRefused(t: Test, url: string, calls: Call[], refusal: RegExp): Promise<Call[]> {
  const refused: Call[] = []
  const replies = await Promise.all(calls.map(async (what) => ({ what, reply: await ask(url, what) })))
  for (const { what, reply } of replies) {
    if (reply.status === 200) continue
    refused.push(what)
    t.equal(reply.status, 503)
    t.match(reply.body, { status: 0, code: 'unavailable', error: refusal })
    t.ok(reply.headers.get('retry-after'))
  }
  t.ok(refused.length > 0, 'some are refused')
  t.ok(refused.length < calls.length, 'others continue')
  return refused
}

/** CALLS calls of a kind, each with a different name. */
function many(make: (name: string) => Call): Call[] {
  return Array.from({ length: CALLS }, () => make(randomName('key')))
}

t.test('a lane is down: calls that do not need it work, and the others name it', async (t) => {
  const installation = await Installation.start(t, HOMES)
  const { server } = installation.redis[DOWN] ?? {}
  if (!server) return t.fail('there is a Redis')
  const sent: string[] = []
  const refusal = /lane 1 \(127\.0\.0\.1:\d+\)/
  const url = installation.url(0)
  await server.kill()

  t.test('events without a key are taken by other lanes, at every service', async (t) => {
    for (let i = 0; i < CALLS; i++) {
      const name = `free ${i}`
      t.equal((await ask(installation.url(i % LANES), tracked(name))).status, 200)
      sent.push(name)
    }
  })

  let refused: Call[] = []
  t.test('calls with a key', async (t) => {
    const keyed = (idempotencyKey: string) => ({ ...tracked(idempotencyKey), idempotencyKey })
    const calls = many(keyed)
    refused = await assertSomeRefused(t, url, calls, refusal)
    sent.push(...calls.filter((what) => !refused.includes(what)).map(({ idempotencyKey }) => idempotencyKey ?? ''))
  })

  t.test('profiles', async (t) => {
    const identify = (distinct_id: string) => ({
      method: 'POST',
      path: '/public/users/identify',
      body: { distinct_id },
    })
    await assertSomeRefused(t, url, many(identify), refusal)
  })

  t.test('reads, which cannot know what waits in the lane', async (t) => {
    const reply = await ask(url, { path: '/public/events' })
    t.equal(reply.status, 503)
    t.match(reply.body, { code: 'unavailable', error: refusal })
  })

  t.test('readiness', async (t) => {
    const states = { '0': 'ready', '1': 'unavailable', '2': 'ready' }
    const whole = await ask(url, { path: '/health/ready' })
    t.equal(whole.status, 503)
    t.match(whole.body, { code: 'unavailable', error: /lane 1/, journal: 'unavailable', store: 'ready', lanes: states })
    t.equal((await ask(url, { path: '/health/ready?partial=true' })).status, 200)
  })

  t.test('afterwards, everything is stored once, and refused data can be sent again', async (t) => {
    await server.restart()
    for (const what of refused) {
      await until('the lane', async () => (await ask(url, what)).status === 200)
      sent.push(what.idempotencyKey ?? '')
    }
    t.strictSame((await names(installation.url(2))).sort(), sent.sort())
  })
})

t.test('a shard is down: events are accepted, and those on other shards can be read and changed by id', async (t) => {
  const installation = await Installation.start(t, HOMES)
  const { server } = installation.clickhouse[DOWN] ?? {}
  if (!server) return t.fail('there is a ClickHouse')
  const refusal = /shard 1 \(127\.0\.0\.1:\d+\)/i
  const url = installation.url(0)
  const sent: string[] = []
  const ids: string[] = []
  let waiting = ''
  for (let lane = 0; lane < LANES; lane++) {
    const name = `before, in lane ${lane}`
    const reply = await ask(installation.url(lane), tracked(name))
    ids.push(reply.headers.get('x-event-id') ?? '')
    sent.push(name)
  }
  t.strictSame((await names(url)).sort(), sent)
  await server.stop()

  t.test('every lane takes events', async (t) => {
    for (let i = 0; i < CALLS; i++) {
      const name = `during ${i}`
      const idempotencyKey = i % 2 === 0 ? randomName('key') : undefined
      const reply = await ask(installation.url(i % LANES), {
        ...tracked(name),
        ...(idempotencyKey && { idempotencyKey }),
      })
      t.equal(reply.status, 200)
      if (!idempotencyKey && i % LANES === DOWN) waiting = reply.headers.get('x-event-id') ?? ''
      sent.push(name)
    }
  })

  t.test('pages, lists and changes of data that waits there are refused, with its name', async (t) => {
    const refused: Call[] = ['/public/events', '/public/users', '/public/sessions'].map((path) => ({ path }))
    // An event in the journal of the lane of that shard.
    refused.push({ method: 'DELETE', path: `/public/events/${waiting}` })
    await Promise.all(refused.map((what) => assertRefused(t, url, what, refusal)))
  })

  t.test('an event is read, edited and deleted if its shard is up', async (t) => {
    const path = `/public/events/${ids[0]}`
    const body = { properties: { edited: true } }
    await assertDone(url, { method: 'PUT', path, body })
    t.match((await assertDone(url, { path })).body.event, { properties: { edited: true } })
    await assertDone(url, { method: 'DELETE', path: `/public/events/${ids[2]}` })
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const more = method === 'PUT' ? { body } : {}
      await assertRefused(t, url, { method, path: `/public/events/${ids[DOWN]}`, ...more }, refusal)
    }
  })

  t.test('readiness', async (t) => {
    const states = { '0': 'ready', '1': 'unavailable', '2': 'ready' }
    const whole = await until('the other shards', async () => {
      const reply = await ask(url, { path: '/health/ready' })
      return reply.body.error === 'Not ready: shard 1.' && reply
    })
    t.equal(whole.status, 503)
    t.match(whole.body, { code: 'unavailable', journal: 'ready', store: 'unavailable', shards: states })
    t.equal((await ask(url, { path: '/health/ready?partial=true' })).status, 200)
  })

  t.test('afterwards, everything is stored once', async (t) => {
    await server.start()
    const wanted = sent.filter((name) => name !== 'before, in lane 2').sort()
    const found = await until('all of it', async () => (await names(url).catch(() => undefined))?.sort())
    t.strictSame(found, wanted)
    t.equal((await ask(url, { method: 'DELETE', path: `/public/events/${ids[2]}` })).status, 404)
  })
})

t.test('idle lanes, with clocks behind and ahead, delay no reader', async (t) => {
  const installation = await Installation.start(t, { lanes: LANES, env: () => ({ HOME_LANE: '2' }) })
  const url = installation.url()
  const sent: string[] = []
  const times: number[] = []
  for (let i = 0; i < CALLS; i++) {
    sent.push(`event ${i}`)
    t.equal((await ask(url, tracked(`event ${i}`))).status, 200)
    const startedAt = performance.now()
    t.strictSame(await names(url), sent)
    times.push(performance.now() - startedAt)
  }
  // A reader that waits for a lane gives up after 5 s. A busy machine can hold one up, but not all of them.
  const best = Math.min(...times.slice(CALLS / 2))
  t.ok(best < 4_000, `${times.map(Math.round)} ms`)
})
