import t from 'tap'
import { openStore } from '../../src/store/open.js'
import { DailyVisitors } from '../../src/users/daily-visitors.js'
import { LANES, settingsFor, silent, until } from '../helper.js'
import { isRefused } from '../routes/event-calls.js'
import { basic, startSdkApp } from '../routes/vendors/sdk-app.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NAME = /^\$visitor:[\w-]{16}$/
const DAILY = '?visitor=daily'
const NDJSON = { 'content-type': 'application/x-ndjson' }

for (const storage of LANES) {
  t.test(storage, async (t) => {
    // By the store's clock, the days of these tests are over.
    const firstDay = Math.floor(Date.now() / DAY_MS) * DAY_MS - 9 * DAY_MS
    let now = firstDay + 23 * HOUR_MS
    const env = { TRUST_PROXY: '127.0.0.1', FACTS: 'off', ...(await settingsFor(t, storage)) }
    const { client, keys, events, inject } = await startSdkApp(t, {}, env, { now: () => now })
    let count = 0
    const uniqueEvent = () => `e${++count}`
    const send = (url: string, payload: object, { key = keys.write, ip = '203.0.113.7', ua = 'A' } = {}) =>
      inject({ method: 'POST', url, payload, headers: { 'x-api-key': key, 'x-forwarded-for': ip, 'user-agent': ua } })
    const visitorOf = async (event: string) => (await events(`&event=${event}`))[0]?.distinct_id
    const visit = async (sender?: Parameters<typeof send>[2]) => {
      const event = uniqueEvent()
      const sent = await send(`/public/track${DAILY}`, { event }, sender)
      if (sent.statusCode !== 200) throw new Error(sent.body)
      return await visitorOf(event)
    }

    t.test('a visitor has one name a day, which depends on address, User-Agent and project', async (t) => {
      const first = await visit()
      t.match(first, NAME)
      t.equal(await visit(), first)
      t.not(await visit({ ip: '203.0.113.8' }), first)
      t.not(await visit({ ua: 'B' }), first)
      now += DAY_MS
      t.not(await visit(), first)
      now -= DAY_MS
      t.equal(await visit(), first)
    })

    t.test('events of each call are stored exactly, except for the name', async (t) => {
      const event = uniqueEvent()
      const one = `{ "event":"${event}", "insert_id":"i-${event}", "properties":{ "n" : 1.0, "big":12345678901234567890 } }`
      const lines = `${one.replace('i-', 'j-')}\n${one.replace('i-', 'k-')}`
      const headers = { 'x-api-key': keys.write, 'user-agent': 'A', 'x-forwarded-for': '203.0.113.7' }
      const post = (url: string, payload: string, type = { 'content-type': 'application/json' }) =>
        inject({ method: 'POST', url: `/public/${url}${DAILY}`, payload, headers: { ...headers, ...type } })
      t.equal((await post('track', one)).statusCode, 200)
      t.equal((await post('track/batch', `{"events":[${one.replace('i-', 'l-')}]}`)).statusCode, 200)
      t.equal((await post('import', lines, NDJSON)).statusCode, 200)
      const read = await inject({ url: `/public/events?event=${event}`, headers: { 'x-api-key': keys.read } })
      t.equal(read.body.split('"properties":{ "n" : 1.0, "big":12345678901234567890 }').length - 1, 4, read.body)
      const names = new Set((await events(`&event=${event}`)).map(({ distinct_id }) => distinct_id))
      t.equal(names.size, 1)
    })

    t.test('a distinct_id that is null counts as absent', async (t) => {
      const named = { event: uniqueEvent(), distinct_id: null }
      t.equal((await send(`/public/track${DAILY}`, named)).statusCode, 200)
      t.equal((await send(`/public/track/batch${DAILY}`, { events: [named, named] })).statusCode, 200)
      t.equal((await send(`/public/sessions/start${DAILY}`, { session_id: 'null', distinct_id: null })).statusCode, 200)
      const names = (await events(`&event=${named.event}`)).map(({ distinct_id }) => distinct_id)
      t.equal(names.length, 3)
      for (const name of names) t.match(name, NAME)
    })

    t.test('unknown fields are ignored, whatever they hold', async (t) => {
      const event = { event: uniqueEvent() }
      const others = [{ distinct_id: 'ada' }, 7, null]
      t.equal((await send(`/public/track${DAILY}`, { ...event, events: others })).statusCode, 200)
      const batch = { events: [event], distinct_id: 'ada' }
      t.equal((await send(`/public/track/batch${DAILY}`, batch)).statusCode, 200)
      const start = { session_id: 'others', events: others }
      t.equal((await send(`/public/sessions/start${DAILY}`, start)).statusCode, 200)
      const names = (await events(`&event=${event.event}`)).map(({ distinct_id }) => distinct_id)
      t.equal(names.length, 2)
      for (const name of names) t.match(name, NAME)
    })

    t.test('an event that is repeated after midnight is stored once', async (t) => {
      const event = { event: uniqueEvent(), insert_id: 'page-1' }
      await send(`/public/track/batch${DAILY}`, { events: [event] })
      now += DAY_MS
      const again = await send(`/public/track/batch${DAILY}`, { events: [event] })
      now -= DAY_MS
      t.equal(again.statusCode, 200, again.body)
      t.equal((await events(`&event=${event.event}`)).length, 1)
    })

    t.test('a session continues after midnight', async (t) => {
      const session = { session_id: 'late' }
      t.equal((await send(`/public/sessions/start${DAILY}`, session)).statusCode, 200)
      now += DAY_MS
      const update = await send(`/public/sessions/update${DAILY}`, session)
      t.equal((await send(`/public/sessions/end${DAILY}`, session)).statusCode, 200)
      now -= DAY_MS
      t.equal(update.statusCode, 200, update.body)
      const { body } = await inject({ url: '/public/sessions/late', headers: { 'x-api-key': keys.read } })
      t.match(JSON.parse(body).session, { distinct_id: NAME, state: 'completed' })
    })

    t.test('no page can use the name of a visitor', async (t) => {
      const name = String(await visit())
      const escaped = name.replace('$v', '\\u0024v')
      const event = uniqueEvent()
      for (const text of [name, escaped, name.replace('visitor', 'v\\u0069sitor')]) {
        const one = `{"event":"${event}","distinct_id":"${text}"}`
        for (const [url, payload] of [
          ['track', one],
          ['track', `${one.slice(0, -1)},"events":[]}`],
          ['track', `${one.slice(0, -1)},"events":[{"distinct_id":"a"}],"properties":null}`],
          ['track/batch', `{"events":[{"event":"${event}","distinct_id":"a"},${one}]}`],
          ['sessions/start', `{"session_id":"s","distinct_id":"${text}"}`],
          ['sessions/update', `{"session_id":"s","distinct_id":"${text}"}`],
          ['sessions/end', `{"session_id":"s","distinct_id":"${text}"}`],
          ['sessions/start', `{"session_id":"s","distinct_id":"${text}","events":[]}`],
        ] as const) {
          const headers = { 'x-api-key': keys.write, 'content-type': 'application/json' }
          const path = url === 'track/batch' ? '/events/1/distinct_id' : '/distinct_id'
          const refused = await inject({ method: 'POST', url: `/public/${url}`, payload, headers })
          isRefused(t, refused, 400, 'invalid_request', path)
        }
        const headers = { 'x-api-key': keys.write, ...NDJSON }
        const line = await inject({ method: 'POST', url: '/public/import', payload: one, headers })
        isRefused(t, line, 400, 'invalid_request', '/events/0/distinct_id')
      }
      const segment = { batch: [{ type: 'track', event, userId: name, messageId: 'm' }] }
      await inject({ method: 'POST', url: '/segment/v1/batch', payload: segment, headers: basic(keys.write) })
      t.strictSame(await events(`&event=${event}`), [])
      const letters = await inject({ url: '/public/dead-letters', headers: { 'x-api-key': keys.read } })
      t.match(letters.body, 'distinct_id must not begin with $visitor:')

      const moved = await send('/public/track', { event, distinct_id: name }, { key: keys.secret })
      t.equal(moved.statusCode, 200, 'a move to another store keeps the names')
      const other = await send('/public/track', { event, distinct_id: '$visitors' })
      t.equal(other.statusCode, 200)
    })

    t.test('an error says what is wrong with a call', async (t) => {
      const event = uniqueEvent()
      const named = { event, distinct_id: 'ada' }
      isRefused(t, await send(`/public/track${DAILY}`, named), 400, 'invalid_request', '/distinct_id')
      isRefused(
        t,
        await send(`/public/track${DAILY}`, { ...named, events: [] }),
        400,
        'invalid_request',
        '/distinct_id',
      )
      for (const [i, others] of [[], [{ event }], [{ event }, 7]].entries()) {
        const batch = await send(`/public/track/batch${DAILY}`, { events: [...others, named] })
        isRefused(t, batch, 400, 'invalid_request', `/events/${i}/distinct_id`)
      }
      isRefused(t, await send('/public/track?visitor=weekly', { event }), 400, 'invalid_request', '/visitor')
      isRefused(t, await send(`/public/track${DAILY}`, { event }, { key: keys.secret }), 403, 'wrong_key_kind')
      isRefused(t, await send(`/public/users/identify${DAILY}`, { properties: {} }), 400, 'invalid_request', '/visitor')
      isRefused(t, await send(`/public/track${DAILY}`, {}), 400, 'invalid_request', '/event')
      isRefused(t, await send(`/public/track/batch${DAILY}`, { events: [7] }), 400, 'invalid_request', '/events/0')
      t.strictSame(await events(`&event=${event}`), [])
    })

    t.test('processes share a salt, which is destroyed after its day and the next', async (t) => {
      const store = await openStore(client.config)
      t.teardown(() => store.close())
      const closing = new AbortController()
      t.teardown(() => closing.abort())
      const visit = { projectId: 'p', address: '203.0.113.7', userAgent: 'A' }
      const start = async (days: number) => {
        const at = now + days * DAY_MS
        const visitors = new DailyVisitors({
          shards: store.shards,
          log: silent,
          closing: closing.signal,
          now: () => at,
        })
        await visitors.start()
        return visitors.name(visit)
      }
      const all = await Promise.all([start(0), start(0), start(0)])
      t.equal(new Set(all).size, 1)
      t.equal(await start(1), await start(1))
      await start(2)
      const salts = await store.clickhouse.rows<{ day: string }>(
        'SELECT toString(day) AS day FROM visitor_salts ORDER BY day',
      )
      t.strictSame(
        salts.map(({ day }) => day),
        [1, 2, 3].map((days) => new Date(firstDay + days * DAY_MS).toISOString().slice(0, 10)),
      )

      let at = now + 2 * DAY_MS
      const { shards } = store
      const visitors = new DailyVisitors({ shards, log: silent, closing: closing.signal, now: () => at })
      await visitors.start()
      at += DAY_MS
      const later = visitors.name(visit)
      at += DAY_MS
      t.throws(() => visitors.name(visit), { code: 'unavailable' }, 'ClickHouse was down for more than a day')
      const attempt = () => {
        try {
          return visitors.name(visit)
        } catch {
          return undefined
        }
      }
      t.not(await until('a salt, because it was needed', attempt), later)
    })

    t.test('a process whose clock is ahead destroys no salt that others use', async (t) => {
      const store = await openStore(client.config)
      t.teardown(() => store.close())
      const closing = new AbortController()
      t.teardown(() => closing.abort())
      const today = Date.now()
      const start = async (at: number) => {
        const { shards } = store
        const visitors = new DailyVisitors({ shards, log: silent, closing: closing.signal, now: () => at })
        await visitors.start()
        return visitors.name({ projectId: 'p', address: '203.0.113.7', userAgent: 'A' })
      }
      const name = await start(today)
      await start(today + 5 * DAY_MS)
      t.equal(await start(today), name)
    })
  })
}
