import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import fc from 'fast-check'
import { pino } from 'pino'
import t from 'tap'
import { DEVICES } from '../../src/contract/context.js'
import { freshAddress } from '../browser-keys.js'
import { PUBLIC_KEY, randomName, type StoredEvent, settingsFor, startApp } from '../helper.js'
import { eventCalls, isRefused } from './event-calls.js'

const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36'
const SENDER = { 'user-agent': CHROME, 'accept-language': 'de-AT,de;q=0.9' }
const CONTEXT = {
  browser: 'Chrome',
  browser_version: '131',
  os: 'Windows',
  os_version: '10',
  device: 'desktop',
  country: 'AT',
  language: 'de-AT',
}
const ZONE = 'timezone=Europe%2FVienna'
const NDJSON = { 'content-type': 'application/x-ndjson' }

const context = fc
  .record(
    {
      browser: fc.string({ minLength: 1, unit: 'grapheme', maxLength: 50 }),
      browser_version: fc.string({ minLength: 1, maxLength: 255 }),
      os: fc.constantFrom('Linux', '"', '\\', '\n', '\u0000'),
      os_version: fc.constant('1'),
      device: fc.constantFrom(...DEVICES),
      country: fc.constantFrom('AT', 'DE', 'ZZ'),
      region: fc.string({ minLength: 1, unit: 'binary', maxLength: 40 }).filter((text) => text.isWellFormed()),
      city: fc.constantFrom('São Paulo', '東京'),
      language: fc.constant('de-AT'),
      bot: fc.constant(true),
    },
    { requiredKeys: [] },
  )
  .map((fields) => ({ ...fields }))
  .filter((fields) => Object.keys(fields).length > 0)

t.test('contexts', async (t) => {
  const lines: string[] = []
  const log = pino({ level: 'trace' }, new Writable({ write: (line, _, done) => done(void lines.push(String(line))) }))
  const env: NodeJS.ProcessEnv = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const client = await startApp(t, env, { log })
  const { app, call, events } = client
  const { user, putText } = eventCalls(client)
  const created = await call('POST', '/public/keys', { kind: 'write' })
  const write = String(created.json().apiKey)
  const address = freshAddress()
  const page = (url: string, body: object | string, headers: object = {}) =>
    app.inject({
      method: 'POST',
      url,
      remoteAddress: address,
      headers: { 'x-api-key': write, 'content-type': 'application/json', ...SENDER, ...headers },
      payload: typeof body === 'string' ? body : JSON.stringify(body),
    })
  const eventsOf = async (name: string) => (await events(1000, `&distinct_id=${name}`)) as StoredEvent[]
  const contextsOf = async (name: string) => (await eventsOf(name)).map((event) => event.context)

  t.test('each call with a write key gives its events the context of the request', async (t) => {
    const event = (distinct_id: string, more = '') =>
      `{"event":"e","distinct_id":"${distinct_id}","properties":{ "context":1.0 }${more}}`
    const doors: Record<string, (name: string) => ReturnType<typeof page>> = {
      track: (name) => page(`/public/track?${ZONE}`, event(name)),
      'track, after white space': (name) => page(`/public/track?${ZONE}`, `\n ${event(name)}`),
      'track, with an insert_id': (name) => page(`/public/track?${ZONE}`, event(name, ',"insert_id":"i"')),
      'track, with a key': (name) =>
        page(`/public/track?${ZONE}`, event(name), { 'idempotency-key': randomName('key') }),
      'track, parsed': (name) => page(`/public/track?${ZONE}`, event(name, ',"timestamp":1.5')),
      'track, large': (name) => page(`/public/track?${ZONE}`, event(name, `,"x":"${'x'.repeat(10_000)}"`)),
      'track, with its own context': (name) =>
        page(`/public/track?${ZONE}`, event(name, ',"context":{"browser":"Own","bot":true}')),
      'track, with another context': (name) => page(`/public/track?${ZONE}`, event(name, ',"context":{"page":{}}')),
      batch: (name) => page(`/public/track/batch?${ZONE}`, `{"events":[${event(name)},${event(name)}]}`),
      'batch of one': (name) => page(`/public/track/batch?${ZONE}`, `{"x":1,"events":[ ${event(name)} ]}`),
      'batch, with ids': (name) =>
        page(
          `/public/track/batch?${ZONE}`,
          `{"events":[${event(name, ',"insert_id":"a"')},${event(name, ',"insert_id":"b"')}]}`,
        ),
      'batch, parsed': (name) => page(`/public/track/batch?${ZONE}`, `{"events":[${event(name, ',"timestamp":1.5')}]}`),
      lines: (name) => page(`/public/import?${ZONE}`, `${event(name)}\n${event(name)}`, NDJSON),
    }
    for (const [door, send] of Object.entries(doors)) {
      const name = user()
      const response = await send(name)
      t.equal(response.statusCode, 200, `${door}: ${response.body}`)
      const stored = await eventsOf(name)
      t.ok(stored.length > 0, door)
      for (const event of stored) {
        t.strictSame(event.context, CONTEXT, door)
        t.strictSame(event.properties, { context: 1 }, door)
      }
    }
    const warned = await page('/public/track/batch', `{"events":[${event(user(), ',"context":{"browser":"Own"}')}]}`)
    t.match(warned.json().warnings, [{ path: '/events/0/context', message: /^The field context is ignored/ }])
  })

  t.test('events of many requests that share an entry keep their contexts', async (t) => {
    const name = user()
    const agents = ['Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0', CHROME, 'curl/8.5.0']
    await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        page('/public/track', { event: `e${i % 3}`, distinct_id: name }, { 'user-agent': agents[i % 3] }),
      ),
    )
    for (const { event, context } of await eventsOf(name)) {
      t.match(context, [{ os: 'Linux' }, { os: 'Windows' }, { bot: true }][Number(event.slice(1))] ?? {}, event)
    }
  })

  t.test('with a secret key, the body contains the context', async (t) => {
    const name = user()
    const send = (url: string, body: object | string, headers = {}) =>
      call('POST', `${url}?${ZONE}`, body, { ...SENDER, ...headers })
    const one = { event: 'e', distinct_id: name, context: { browser: 'Own', bot: true } }
    await send('/public/track', { event: 'none', distinct_id: name })
    await send('/public/track', { ...one, event: 'one' })
    await send('/public/track', { ...one, event: 'null', context: { browser: null, bot: false } })
    await send('/public/track', { ...one, event: 'missing', context: null })
    await send('/public/track/batch', {
      events: [
        { ...one, event: 'first' },
        { event: 'second', distinct_id: name },
      ],
    })
    await send('/public/track/batch', { events: [{ ...one, event: 'parsed', timestamp: 1.5 }] })
    await send('/public/import', `${JSON.stringify({ ...one, event: 'line' })}\n`, NDJSON)
    const own = { browser: 'Own', bot: true }
    t.strictSame(Object.fromEntries((await eventsOf(name)).map(({ event, context }) => [event, context])), {
      none: undefined,
      one: own,
      null: undefined,
      missing: undefined,
      first: own,
      second: undefined,
      parsed: own,
      line: own,
    })
    const refused: [context: unknown, at: string][] = [
      [{ ip: '192.0.2.1' }, '/ip'],
      [{ browser: '' }, '/browser'],
      [{ browser: 'x'.repeat(256) }, '/browser'],
      [{ browser: 5 }, '/browser'],
      [{ device: 'phone' }, '/device'],
      [{ country: 'at' }, '/country'],
      [{ country: 'AUT' }, '/country'],
      [{ bot: 'yes' }, '/bot'],
      ['text', ''],
      [[], ''],
    ]
    for (const [context, at] of refused) {
      const event = { ...one, context }
      isRefused(t, await send('/public/track', event), 400, 'invalid_request', `/context${at}`)
      const path = `/events/0/context${at}`
      isRefused(t, await send('/public/track/batch', { events: [event] }), 400, 'invalid_request', path)
      isRefused(t, await send('/public/import', JSON.stringify(event), NDJSON), 400, 'invalid_request', path)
    }
  })

  t.test('exported events can be imported', async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(context), { minLength: 1, maxLength: 20 }), async (contexts) => {
        const [name, again] = [user(), user()]
        const sent = contexts.map((context, n) => ({ event: `e${n}`, distinct_id: name, context }))
        t.equal((await call('POST', '/public/track/batch', { events: sent })).statusCode, 200)
        const wanted = contexts.map((context) => context ?? undefined)
        t.strictSame(sort(await eventsOf(name)), wanted)
        const exported = (await call('GET', `/public/export?distinct_id=${name}`)).body.replaceAll(name, again)
        t.equal((await call('POST', '/public/import', exported, NDJSON)).statusCode, 200)
        t.strictSame(sort(await eventsOf(again)), wanted)
      }),
      { numRuns: 4 },
    )
    function sort(stored: StoredEvent[]) {
      return stored
        .toSorted((a, b) => Number(a.event.slice(1)) - Number(b.event.slice(1)))
        .map(({ context }) => context)
    }
  })

  t.test('every read has it, and an edit keeps it', async (t) => {
    const name = user()
    await page(`/public/track?${ZONE}`, { event: 'e', distinct_id: name, timestamp: 5 })
    const [{ eventId = '' } = {}] = await eventsOf(name)
    const full = (properties: string) =>
      `{"eventId":"${eventId}","event":"e","distinct_id":"${name}","properties":${properties},"timestamp":5,"context":${JSON.stringify(CONTEXT)}}`
    t.equal((await call('GET', `/public/events/${eventId}`)).body, `{"status":1,"error":null,"event":${full('{}')}}`)
    t.equal((await putText(eventId, '{"a":1}')).statusCode, 200)
    t.equal((await call('GET', `/public/export?distinct_id=${name}`)).body, `${full('{"a":1}')}\n`)
    t.match((await call('GET', `/public/users/${name}/export`)).body, full('{"a":1}').slice(1))
  })

  t.test('sessions have the context of their first call', async (t) => {
    const [name, id] = [user(), randomName('visit')]
    const session = (path: string, more: object = {}, headers: object = {}) => {
      const body = { apiKey: PUBLIC_KEY, distinct_id: name, session_id: id, ...more }
      return page(`/public/sessions/${path}?${ZONE}`, body, { 'x-api-key': PUBLIC_KEY, ...headers })
    }
    t.equal((await session('start')).statusCode, 200)
    t.equal((await session('update', { properties: { a: 1 } }, { 'user-agent': 'node' })).statusCode, 200)
    const path = `/public/sessions/${id}`
    t.strictSame((await call('GET', path)).json().session.context, CONTEXT)
    const [listed] = (await call('GET', `/public/sessions?distinct_id=${name}`)).json().sessions
    t.strictSame(listed.context, CONTEXT)
    t.equal((await session('end')).statusCode, 200)
    t.strictSame((await call('GET', path)).json().session.context, CONTEXT)
    t.match((await call('GET', `/public/users/${name}/export`)).body, `"context":${JSON.stringify(CONTEXT)}}`)
  })

  t.test("vendors' messages have more context than their requests", async (t) => {
    const name = user()
    const agent = 'Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0'
    const timezone = 'Europe/Vienna'
    const rows: [url: string, body: object, wanted: object | undefined][] = [
      ['/segment/v1/track', { userId: name, event: 'segment', context: { timezone } }, CONTEXT],
      [
        '/segment/v1/track',
        {
          userId: name,
          event: 'segment own',
          context: { userAgent: agent, ip: '192.0.2.1', timezone, locale: 'fr-FR' },
        },
        {
          browser: 'Firefox',
          browser_version: '132',
          os: 'Linux',
          device: 'desktop',
          country: 'AT',
          language: 'fr-FR',
        },
      ],
      [
        '/posthog/e',
        { event: 'posthog', distinct_id: name, properties: { $raw_user_agent: agent, $ip: 0, $timezone: timezone } },
        {
          browser: 'Firefox',
          browser_version: '132',
          os: 'Linux',
          device: 'desktop',
          country: 'AT',
          language: 'de-AT',
        },
      ],
      [
        '/mixpanel/track',
        { event: 'mixpanel', properties: { distinct_id: name, ip: false, $timezone: timezone } },
        CONTEXT,
      ],
      [
        '/amplitude/2/httpapi',
        { events: [{ user_id: name, event_type: 'amplitude', ip: '$remote' }] },
        { ...CONTEXT, country: undefined },
      ],
    ]
    for (const [url, body] of rows) {
      const response = await page(url, body)
      t.equal(response.statusCode, 200, `${url}: ${response.body}`)
    }
    const server = await page(
      '/posthog/e',
      { event: 'server', distinct_id: name, properties: {} },
      { 'user-agent': 'posthog-node/5.7.0', 'accept-language': '' },
    )
    t.equal(server.statusCode, 200)
    const stored = new Map((await eventsOf(name)).map(({ event, context }) => [event, context]))
    const names = ['segment', 'segment own', 'posthog', 'mixpanel', 'amplitude']
    for (const [i, [url, , wanted]] of rows.entries()) {
      t.strictSame(stored.get(names[i] ?? ''), wanted && JSON.parse(JSON.stringify(wanted)), url)
    }
    t.strictSame(stored.get('server'), undefined)
  })

  t.test('a project decides which parts are kept', async (t) => {
    t.teardown(() => call('PATCH', '/public/project', { context: null }))
    for (const [mode, wanted] of [
      ['off', undefined],
      ['device', { ...CONTEXT, country: undefined }],
      ['full', CONTEXT],
    ] as const) {
      t.equal((await call('PATCH', '/public/project', { context: mode })).statusCode, 200)
      const name = user()
      await page(`/public/track?${ZONE}`, { event: 'e', distinct_id: name })
      t.strictSame(await contextsOf(name), [wanted && JSON.parse(JSON.stringify(wanted))], mode)
    }
  })

  t.test('no address is stored or logged', async (t) => {
    t.notOk(lines.join('').includes(address), 'in the log')
    const files = await readdir(env.DATA_DIR ?? '', { recursive: true, withFileTypes: true })
    for (const file of files.filter((one) => one.isFile())) {
      const bytes = await readFile(join(file.parentPath, file.name)).catch(() => Buffer.alloc(0))
      t.notOk(bytes.includes(address), file.name)
    }
  })
})
