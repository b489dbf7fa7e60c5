import t, { type Test } from 'tap'
import { CLIENT_LIMITS } from '../../src/http/socket/connection-limits.js'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { type KeyKind, makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys, revokeKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { type Client, PUBLIC_KEY, settingsFor, startApp, until } from '../helper.js'
import { addressOf, type LiveStream, openStream, type SentEvent } from '../live-stream.js'

/** The events of a project as a stream should send them: line breaks between tokens are line feeds. */
async function exported({ call }: Client, query = '', headers = {}): Promise<SentEvent[]> {
  const events: SentEvent[] = []
  for (let after = ''; ; ) {
    const page = await call('GET', `/public/events?limit=10000${query}${after}`, undefined, headers)
    for (const text of elementTexts(memberText(page.body, 'events') ?? '[]')) {
      events.push({ id: JSON.parse(text).eventId, data: text.replace(/\r\n?/g, '\n') })
    }
    const { hasMore, next } = page.json()
    if (!hasMore) return events
    after = `&cursor=${next}`
  }
}

async function track({ call }: Client, body: string | object): Promise<string> {
  const response = await call('POST', '/public/track', body)
  if (response.statusCode !== 200) throw new Error(response.body)
  return String(response.headers['x-event-id'])
}

async function metric({ app }: Client, name: string): Promise<number> {
  const { body } = await app.inject('/metrics')
  const line = body.split('\n').find((line) => line.startsWith(`${name} `))
  return Number(line?.split(' ')[1])
}

/** Sends events in bursts until stopped, some of them in batches. */
function sendOn(client: Client): () => Promise<number> {
  let isOver = false
  let sent = 0
  const sending = Promise.all(
    [0, 1].map(async (sender) => {
      while (!isOver) {
        const events = Array.from({ length: 1 + (sent % 7) }, (_, i) => {
          return { event: `e${i % 3}`, distinct_id: `u${sender}`, properties: { sent: sent + i } }
        })
        sent += events.length
        const { statusCode } = await client.call('POST', '/public/track/batch', { events })
        if (statusCode !== 200) throw new Error(`a batch got ${statusCode}`)
      }
    }),
  )
  return async () => {
    isOver = true
    await sending
    return sent
  }
}

/** Checks that a stream had exactly these events, in order. */
async function isStream(t: Test, stream: LiveStream, wanted: SentEvent[], what: string): Promise<void> {
  await stream.until(wanted.length)
  t.strictSame(stream.events, wanted, what)
}

t.test('live events', async (t) => {
  const env = { ...(await settingsFor(t, 'lanes')), FACTS: 'off' }
  const client = await startApp(t, env, { keysRefreshMs: 1000, liveLimits: { heartbeatMs: 100, checkMs: 20 } })
  const url = await addressOf(client)

  t.test('a stream has everything accepted from now on, as the export has it', async (t) => {
    await track(client, { event: 'before', distinct_id: 'ada' })
    const stream = await openStream(t, url)
    t.equal(stream.response.statusCode, 200)
    t.match(stream.response.headers, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': /no-store/,
      'x-accel-buffering': 'no',
    })
    t.notMatch(stream.response.headers, { 'content-encoding': /./ })
    await until('a comment', () => stream.comments.length > 0 && stream.retryMs() === 2000)
    const texts = [
      '{"event":"a","distinct_id":"ada","properties":{ "b" : 1.0, "a":1e400, "n":12345678901234567890,"u":"\\u00e9é"}}',
      '{"event":"lines","distinct_id":"ada","properties":{\r\n\t"x": 1,\n\n "y":\r2\n}}',
      '{"event":"data: é\\n😀\\r","distinct_id":"\\u0000:","timestamp":5,"insert_id":"i\\n1","session_id":"s\\r\\n2"}',
      '{"event":"c","distinct_id":"ada"}',
    ]
    for (const text of texts) await track(client, text)
    const { body } = await client.call('POST', '/public/track/batch', {
      events: Array.from({ length: 100 }, (_, i) => ({ event: 'many', distinct_id: `u${i}`, properties: { i } })),
    })
    t.match(JSON.parse(body), { accepted: 100 })
    const [, ...wanted] = await exported(client)
    t.equal(wanted.length, texts.length + 100)
    await isStream(t, stream, wanted, 'nothing from before, the rest in order')
  })

  t.test('filters', async (t) => {
    const queries = [
      'event=a',
      'distinct_id=é%0A',
      'event=b&distinct_id=ada',
      'from=1000&to=2000',
      'event=a&from=1001',
      'session_id=é%0A',
      'event=c&session_id=s',
    ]
    const last = (await exported(client)).at(-1)?.id ?? ''
    const streams = await Promise.all(queries.map((query) => openStream(t, url, { query: `?${query}` })))
    const events = ['a', 'b', 'c'].flatMap((event) =>
      ['ada', 'é\n'].flatMap((distinct_id) =>
        [999, 1000, 1999.5, 2000].map((timestamp, i) => ({
          event,
          distinct_id,
          timestamp,
          session_id: [undefined, 's', 'é\n'][i],
        })),
      ),
    )
    await client.call('POST', '/public/track/batch', { events })
    for (const [i, query] of queries.entries()) {
      const wanted = (await exported(client, `&${query}`)).filter(({ id }) => id > last)
      t.not(wanted.length, 0)
      const stream = streams[i]
      if (stream) await isStream(t, stream, wanted, query)
      const resumed = await openStream(t, url, { query: `?${query}`, lastEventId: last })
      await isStream(t, resumed, wanted, `${query}, resumed`)
    }
  })

  t.test('a stream resumes after an event, even a deleted one', async (t) => {
    const ids = [
      await track(client, { event: 'r', distinct_id: '1' }),
      await track(client, { event: 'r', distinct_id: '2' }),
      await track(client, { event: 'r', distinct_id: '3' }),
    ]
    await client.call('DELETE', `/public/events/${ids[1]}`)
    await client.call('PUT', `/public/events/${ids[2]}`, '{"properties":{"edited" : true}}')
    const all = await exported(client)
    for (const lastEventId of [ids[0] ?? '', ids[1] ?? '', ids[1]?.toUpperCase() ?? '']) {
      const stream = await openStream(t, url, { lastEventId })
      await isStream(t, stream, all.slice(-1), 'the last one, as it is now')
      t.match(stream.events[0]?.data, /\{"edited" : true\}/)
      stream.close()
    }
    const first = await openStream(t, url, { lastEventId: '00000000-0000-7000-8000-000000000000' })
    await isStream(t, first, all, 'from the first event on')
  })

  t.test('streams that come and go while events arrive have no gap and no repetition', async (t) => {
    const stop = sendOn(client)
    const last = (await exported(client)).at(-1)?.id ?? ''
    const whole: SentEvent[] = []
    const fresh = await openStream(t, url)
    const onlyOne = await openStream(t, url, { query: '?event=e1' })
    for (let i = 0; i < 4; i++) {
      const stream = await openStream(t, url, { lastEventId: whole.at(-1)?.id ?? last })
      // A reader hastens the writer.
      await client.call('GET', '/public/events?limit=1')
      await stream.until(1 + i * 5)
      stream.close()
      whole.push(...stream.events)
    }
    await stop()
    const all = (await exported(client)).filter(({ id }) => id > last)
    const rest = await openStream(t, url, { lastEventId: whole.at(-1)?.id ?? last })
    await rest.until(all.length - whole.length)
    t.strictSame([...whole, ...rest.events], all, 'in pieces')
    const [first] = fresh.events
    await isStream(t, fresh, all.slice(all.findIndex(({ id }) => id === first?.id)), 'in one')
    t.strictSame(
      onlyOne.ids(),
      all
        .filter(({ id, data }) => JSON.parse(data).event === 'e1' && id >= (onlyOne.ids()[0] ?? ''))
        .map(({ id }) => id),
      'of one name',
    )
  })

  t.test('disconnected clients are forgotten', async (t) => {
    const streams = await Promise.all(Array.from({ length: 5 }, () => openStream(t, url)))
    t.ok((await metric(client, 'tallyhouse_live_streams')) >= 5)
    for (const stream of streams) stream.close()
    await until('no stream', async () => (await metric(client, 'tallyhouse_live_streams')) === 0)
    t.ok((await metric(client, 'tallyhouse_live_events_total')) > 100)
  })

  t.test('invalid parameters are refused', async (t) => {
    const get = (query: string, headers: object = {}) =>
      client.call('GET', `/public/events/live${query}`, undefined, headers)
    for (const query of [
      '?evnt=a',
      '?last_event_id=x',
      '?limit=5',
      '?order=desc',
      '?event=',
      '?from=x',
      '?event=a&event=b',
    ]) {
      t.match((await get(query)).json(), { status: 0, code: 'invalid_request', details: [{}] }, query)
    }
    for (const id of ['x', '0193ae30-7c42-4000-8000-00005eed1234', 'ffffffff-ffff-7fff-bfff-ffffffffffff']) {
      t.match((await get('', { 'last-event-id': id })).json(), { code: 'invalid_request', error: /Last-Event-ID/ }, id)
      t.equal(
        (await client.call('HEAD', '/public/events/live', undefined, { 'last-event-id': id })).statusCode,
        400,
        id,
      )
    }
    t.equal((await get('', { 'x-api-key': 'sk_unknown_unknown' })).statusCode, 401)
    t.equal((await get('', { 'x-api-key': PUBLIC_KEY })).statusCode, 403)
    const head = await client.call('HEAD', '/public/events/live')
    t.equal(head.statusCode, 200)
    t.match(head.headers, { 'content-type': /^text\/event-stream/, 'x-last-event-id': /-/ })
    t.equal(await metric(client, 'tallyhouse_live_streams'), 0)
  })

  const { clickhouse, close } = await openStore(client.config)
  t.teardown(close)
  const addKey = async (projectId: string, kind: KeyKind) => {
    const key = makeKey(kind)
    await insertKeys(clickhouse, [storedKey(key, { projectId, kind })], Date.now())
    const headers = { 'x-api-key': key }
    await until('the key', async () => {
      return (await client.call('GET', '/public/users', undefined, headers)).statusCode === 200
    })
    return key
  }

  t.test('a stream ends when its key is revoked', async (t) => {
    const key = await addKey('default', 'read')
    const stream = await openStream(t, url, { key })
    const other = await openStream(t, url)
    await revokeKeys(clickhouse, [storedKey(key, { projectId: 'default', kind: 'read' })])
    await until('the end', () => stream.ending() !== 'open')
    t.equal(stream.ending(), 'end')
    t.equal(other.ending(), 'open')
  })

  t.test('many projects each get their own events', async (t) => {
    const names = Array.from({ length: 4 }, (_, i) => `project ${i}`)
    const keys = await Promise.all(names.map((name) => addKey(name, 'secret')))
    const streams = await Promise.all(keys.map((key) => openStream(t, url, { key })))
    for (let round = 0; round < 3; round++) {
      const sending = keys.map(async (key, i) => {
        for (let event = 0; event < i; event++) {
          const headers = { 'x-api-key': key }
          await client.call('POST', '/public/track', { event: names[i], distinct_id: `${round}.${event}` }, headers)
        }
      })
      await Promise.all(sending)
      await Promise.all(streams.map((stream, i) => stream.until((round + 1) * i)))
    }
    for (const [i, key] of keys.entries()) {
      t.strictSame(streams[i]?.events, await exported(client, '', { 'x-api-key': key }), `project ${i}`)
    }
  })

  t.test('streams end when the service stops', async (t) => {
    const stream = await openStream(t, url)
    await until('a heartbeat', () => stream.comments.length > 3)
    const startedAt = performance.now()
    await client.app.close()
    t.equal(stream.ending(), 'end')
    t.ok(performance.now() - startedAt < 10_000)
  })
})

t.test('limits of live streams', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const wide = { event: 'wide', distinct_id: 'u', properties: { text: 'x'.repeat(20_000) } }
  const forty = { events: Array.from({ length: 40 }, () => wide) }
  const cutOff = 'tallyhouse_live_streams_ended_total{reason="slow"}'

  t.test('an idle stream outlives other connections', async (t) => {
    const clientLimits = { ...CLIENT_LIMITS, idleMs: 400, responseMs: 300 }
    const client = await startApp(t, env, { clientLimits, liveLimits: { heartbeatMs: 100, checkMs: 20 } })
    const stream = await openStream(t, await addressOf(client))
    await until('heartbeats', () => stream.comments.length > 8)
    await track(client, { event: 'late', distinct_id: 'ada' })
    t.equal((await stream.until(1)).length, 1)
    await client.app.close()
  })

  t.test('in one process', async (t) => {
    const liveLimits = { checkMs: 20, bufferBytes: 256 * 1024 }
    const client = await startApp(t, { ...env, MAX_PROJECT_LIVE_STREAMS: '5' }, { liveLimits })
    const url = await addressOf(client)

    t.test('a client that does not read is disconnected, and resumes; others notice nothing', async (t) => {
      const slow = await openStream(t, url)
      slow.response.pause()
      const queries = ['', '?event=wide', '?distinct_id=u']
      const others = await Promise.all(queries.map((query) => openStream(t, url, { query })))
      let sent = 0
      while ((await metric(client, cutOff)) === 0) {
        await client.call('POST', '/public/track/batch', forty)
        sent += 40
        for (const other of others) await other.until(sent)
      }
      t.equal(await metric(client, cutOff), 1)
      slow.response.resume()
      await until('the end of the slow one', () => slow.ending() !== 'open')
      t.equal(slow.ending(), 'break')
      t.ok(slow.events.length < sent)
      const resumed = await openStream(t, url, { lastEventId: slow.ids().at(-1) })
      await resumed.until(sent - slow.events.length)
      t.strictSame([...slow.ids(), ...resumed.ids()], others[0]?.ids())
      for (const { events } of others) t.equal(events.length, sent)
      for (const stream of [...others, resumed]) stream.close()
    })

    t.test('streams of a project', async (t) => {
      await until('room', async () => (await metric(client, 'tallyhouse_live_streams')) === 0)
      const streams = await Promise.all(Array.from({ length: 5 }, () => openStream(t, url)))
      const refused = await client.call('GET', '/public/events/live')
      t.equal(refused.statusCode, 429)
      t.match(refused.json(), { code: 'rate_limited', error: /5 live streams/ })
      t.match(refused.headers, { 'retry-after': '10' })
      t.equal((await client.call('HEAD', '/public/events/live')).statusCode, 429)
      streams[0]?.close()
      await until('room', async () => (await metric(client, 'tallyhouse_live_streams')) === 4)
      t.equal((await openStream(t, url)).response.statusCode, 200)
      await client.app.close()
    })
  })

  t.test('memory of all streams, including those that catch up', async (t) => {
    const client = await startApp(t, env, { liveLimits: { memoryBytes: 600_000 } })
    // More than the buffers of a connection hold.
    for (let i = 0; i < 15; i++) await client.call('POST', '/public/track/batch', forty)
    const lastEventId = '00000000-0000-7000-8000-000000000000'
    const url = await addressOf(client)
    for (let i = 0; i < 4; i++) (await openStream(t, url, { lastEventId })).response.pause()
    await until('a cut', async () => (await metric(client, cutOff)) > 0)
    await client.app.close()
  })

  t.test('memory of all streams, and streams of all projects', async (t) => {
    const client = await startApp(t, { ...env, MAX_LIVE_STREAMS: '1' }, { liveLimits: { memoryBytes: 100_000 } })
    const slow = await openStream(t, await addressOf(client))
    slow.response.pause()
    const full = await client.call('GET', '/public/events/live')
    t.equal(full.statusCode, 503)
    t.match(full.json(), { code: 'overloaded' })
    await until('a cut', async () => {
      await client.call('POST', '/public/track/batch', forty)
      return (await metric(client, cutOff)) === 1
    })
    await client.app.close()
  })
})

t.test('a process that does not store follows the one that does', async (t) => {
  const env = { ...(await settingsFor(t, 'servers')), FACTS: 'off' }
  const writer = await startApp(t, { ...env, ROLE: 'writer' })
  const api = await startApp(t, { ...env, ROLE: 'api' }, { liveLimits: { pollMs: 60_000 } })
  const stream = await openStream(t, await addressOf(api))
  await track(api, { event: 'a', distinct_id: 'ada' })
  await stream.until(1)
  await track(api, { event: 'b', distinct_id: 'ada' })
  await isStream(t, stream, await exported(api), 'as it is notified')
  await Promise.all([api.app.close(), writer.app.close()])
})
