import fc from 'fast-check'
import t from 'tap'
import { deepProperties, isCrowded, MAX_MEMBERS } from '../src/body-limits.js'
import { MAX_BATCH } from '../src/limits.js'
import { scanBatch } from '../src/scan.js'
import { PUBLIC_KEY, STORAGES, settingsFor, startApp } from './helper.js'

const MAX = 64
/** `levels` objects or arrays around a number */
const nested = (levels: number, open = '{"a":', close = '}') => open.repeat(levels) + 1 + close.repeat(levels)

/** The depth by its definition, for values that are not deep. */
function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

t.test('the look at the bytes and the look at the value find the same depth', async () => {
  const properties = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 6 }))
  fc.assert(
    fc.property(properties, fc.integer({ min: 1, max: 8 }), (given, max) => {
      const event = { event: 'e', distinct_id: 'u', properties: given }
      const body = { events: [event, { ...event, properties: null }, event] }
      const paths = depthOf(given) > max ? ['/events/0/properties', '/events/2/properties'] : []
      const found = deepProperties(body, { events: true }, max).map(({ path }) => path)
      const isScanned = scanBatch(Buffer.from(JSON.stringify(body)), MAX_BATCH, max) !== null
      return JSON.stringify(found) === JSON.stringify(paths) && isScanned === (paths.length === 0)
    }),
  )
})

t.test('names, objects and arrays are counted, and what looks like them in a string is not', async (t) => {
  const ofNames = (count: number) => `[{${'"a":1,'.repeat(count - 3)}"b":0}]`
  t.notOk(isCrowded(Buffer.from(ofNames(MAX_MEMBERS))))
  t.ok(isCrowded(Buffer.from(ofNames(MAX_MEMBERS + 1))))
  t.ok(isCrowded(Buffer.from('['.repeat(MAX_MEMBERS + 1))))
  t.ok(isCrowded(Buffer.from(`[${'{},'.repeat(MAX_MEMBERS)}0]`)))
  t.notOk(isCrowded(Buffer.from(JSON.stringify(['{[:\\":"'.repeat(MAX_MEMBERS)]))))
  t.notOk(isCrowded(Buffer.from(`"${'\\'.repeat(MAX_MEMBERS + 1)}`)), 'what is no JSON has an answer too')
})

t.test('the look at the bytes takes as many names, objects and arrays as the count allows', async (t) => {
  // The body, its name and array; the event, its three names, the properties and the name in these.
  const around = 3 + 6
  const body = (arrays: number) =>
    Buffer.from(
      `{"events":[{"event":"e","distinct_id":"u","properties":{"a":[${'[],'.repeat(arrays - 1)}0]}}]}`.padEnd(
        2_000_000,
      ),
    )
  for (const [arrays, isTaken] of [
    [MAX_MEMBERS - around, true],
    [MAX_MEMBERS - around + 1, false],
  ] as const) {
    t.equal(scanBatch(body(arrays), MAX_BATCH) !== null, isTaken)
    t.equal(isCrowded(body(arrays)), !isTaken)
  }
})

for (const storage of STORAGES) {
  t.test(storage, async (t) => {
    const { call, app } = await startApp(t, await settingsFor(t, storage))
    const text = (fields: string) => `{"distinct_id":"u","session_id":"s","event":"e",${fields}}`
    const post = (path: string, body: string) =>
      path.startsWith('/sessions')
        ? call('POST', `/public${path}`, body, { 'x-api-key': PUBLIC_KEY })
        : call('POST', `/public${path}`, body)
    const calls: [path: string, at: string, body: (value: string) => string][] = [
      ['/track', '/properties', (value) => text(`"properties":${value}`)],
      // An escaped name makes the body go the way of parsing.
      ['/track', '/properties', (value) => text(`"\\u0070roperties":${value}`)],
      [
        '/track/batch',
        '/events/1/properties',
        (value) => `{"events":[${text('"x":1')},${text(`"properties":${value}`)}]}`,
      ],
      ['/users/identify', '/properties', (value) => text(`"properties":${value}`)],
      ['/users/profile', '/operations', (value) => text(`"operations":{"$set":${value}}`)],
      ['/sessions/start', '/properties', (value) => text(`"properties":${value}`)],
      ['/sessions/update', '/properties', (value) => text(`"properties":${value}`)],
    ]

    t.test('properties of 64 levels are taken, deeper ones are named', async (t) => {
      for (const [path, at, body] of calls) {
        for (const value of [nested(MAX), `{"a":${nested(MAX - 1, '[', ']')}}`]) {
          const response = await post(path, body(value))
          t.equal(response.statusCode, 200, `${path}: ${response.body}`)
        }
        for (const value of [
          nested(MAX + 1),
          `{"a":${nested(MAX, '[', ']')}}`,
          nested(300),
          `{"a":${nested(100_000, '[', ']')}}`,
        ]) {
          const response = await post(path, body(value))
          t.equal(response.statusCode, 400, path)
          const message = 'must not be nested more than 64 levels deep'
          t.match(response.json(), { status: 0, code: 'invalid_request', details: [{ path: at, message }] })
        }
      }
      const { eventId } = (await call('GET', '/public/events?limit=1')).json().events[0]
      const edit = (value: string) => call('PUT', `/public/events/${eventId}`, `{"properties":${value}}`)
      t.equal((await edit(nested(MAX))).statusCode, 200)
      t.equal((await edit(nested(MAX + 1))).statusCode, 400)
    })

    t.test('every event that is too deep is named beside those that are wrong otherwise', async (t) => {
      const deep = text(`"properties":${nested(MAX + 1)}`)
      const response = await post('/track/batch', `{"events":[${deep},{},${text('"x":1')},${deep}]}`)
      const places = response.json().details.map(({ path }: { path: string }) => path.split('/')[2])
      t.strictSame(places.sort(), ['0', '1', '3'])
    })

    t.test('fields that a call does not know may be as deep as they like', async (t) => {
      for (const field of ['x', 'operations', 'events']) {
        const response = await post('/track', text(`"${field}":${nested(5_000)}`))
        t.equal(response.statusCode, 200, response.body)
      }
      const end = await post('/sessions/end', text(`"properties":${nested(MAX + 1)}`))
      t.equal(end.statusCode, 200, end.body)
    })

    t.test('a crowded body is refused before it is parsed', async (t) => {
      const isCrowdedOut = async (path: string, body: string) => {
        const response = await post(path, body)
        t.equal(response.statusCode, 400, response.body)
        t.match(response.json(), { code: 'invalid_request', error: /more than 500000 names, objects and arrays/ })
      }
      await isCrowdedOut('/track/batch', `{"events":${'['.repeat(10_000_000)}`)
      // In a body that need not be parsed, in one that is, and beside the properties.
      const names = '"a":1,'.repeat(MAX_MEMBERS)
      await isCrowdedOut('/track/batch', `{"events":[${text(`"properties":{${names}"b":"c"}`)}]}`)
      await isCrowdedOut('/track/batch', `{"events":[${text(`"\\u0070roperties":{${names}"b":"c"}`)}]}`)
      await isCrowdedOut('/track/batch', `{"events":[${text(`${names}"b":"c"`)}]}`)
    })

    t.test('what was taken is there', async (t) => {
      const { events } = (await call('GET', '/public/events?limit=1000')).json()
      t.equal(events.length, 2 + 2 + 4 + 3)
      t.equal((await app.inject('/health/ready')).statusCode, 200)
    })
  })
}
