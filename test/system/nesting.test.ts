import t from 'tap'
import { MAX_BATCH_WEIGHT, MAX_STATE_WEIGHT, MAX_WEIGHT } from '../../src/json/complexity.js'
import { newProject } from '../shared-app.js'

const MAX = 256
/** `levels` objects or arrays around a number */
const nested = (levels: number, open = '{"a":', close = '}') => open.repeat(levels) + 1 + close.repeat(levels)

t.test('depth and complexity of JSON', async (t) => {
  const { call, app, keys } = await newProject()
  const text = (fields: string) => `{"distinct_id":"u","session_id":"s","event":"e",${fields}}`
  const post = (path: string, body: string) =>
    path.startsWith('/sessions')
      ? call('POST', `/public${path}`, body, { 'x-api-key': keys.public })
      : call('POST', `/public${path}`, body)
  const calls: [path: string, at: string, body: (value: string) => string][] = [
    ['/track', '/properties', (value) => text(`"properties":${value}`)],
    // The scanner does not read escaped names, so the body is parsed.
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

  t.test('256 levels of properties are accepted, deeper ones are reported', async (t) => {
    for (const [path, at, body] of calls) {
      for (const value of [nested(MAX), `{"a":${nested(MAX - 1, '[', ']')}}`]) {
        const response = await post(path, body(value))
        t.equal(response.statusCode, 200, `${path}: ${response.body}`)
      }
      for (const value of [
        nested(MAX + 1),
        `{"a":${nested(MAX, '[', ']')}}`,
        nested(300),
        `{"a":${nested(20_000, '[', ']')}}`,
      ]) {
        const response = await post(path, body(value))
        t.equal(response.statusCode, 400, path)
        const message = 'must not be nested more than 256 levels deep'
        t.match(response.json(), { status: 0, code: 'invalid_request', details: [{ path: at, message }] })
      }
    }
    const { eventId } = (await call('GET', '/public/events?limit=1')).json().events[0]
    const edit = (value: string) => call('PUT', `/public/events/${eventId}`, `{"properties":${value}}`)
    t.equal((await edit(nested(MAX))).statusCode, 200)
    t.equal((await edit(nested(MAX + 1))).statusCode, 400)
  })

  t.test('changes that make a profile deeper than that are refused, too', async (t) => {
    const deepest = nested(MAX - 1, '[', ']')
    const change = (operations: string) => `{"distinct_id":"deep","operations":${operations}}`
    const make = async (operations: string) => {
      const one = (await post('/users/profile', change(operations))).statusCode === 200
      const { accepted, rejected } = (await post('/users/batch', `{"changes":[${change(operations)}]}`)).json()
      t.equal(accepted === 1, one, 'a batch of changes has the same limit')
      if (!one) t.match(rejected, [{ index: 0, message: /must not be nested more than 256 levels deep/ }])
      return one
    }
    t.equal(await make(`{"$set":{"a":${deepest}}}`), true)
    t.equal(await make(`{"$set":{"a":[${deepest}]}}`), false)
    for (const operator of ['$append', '$prepend']) {
      t.equal(await make(`{"${operator}":{"${operator}":${deepest.slice(1, -1)}}}`), true, operator)
      t.equal(await make(`{"${operator}":{"${operator}":${deepest}}}`), false, 'the array around it is a level')
    }
    t.equal(await make(`{"$union":{"u":${deepest}}}`), true)
    t.equal(await make(`{"$union":{"u":[${deepest}]}}`), false)
    const listed = await post('/users/batch', `{"changes":[${change(`[{"$set":{}},{"$set":{"a":[${deepest}]}}]`)}]}`)
    t.equal(listed.json().rejected.length, 1, listed.body)
    const { user } = (await call('GET', '/public/users/deep')).json()
    const again = await post('/users/identify', JSON.stringify({ distinct_id: 'deep', properties: user.properties }))
    t.equal(again.statusCode, 200, 'a profile can be sent back')
  })

  t.test('every event that is nested too deeply is reported, along with those invalid for other reasons', async (t) => {
    const deep = text(`"properties":${nested(MAX + 1)}`)
    const response = await post('/track/batch', `{"events":[${deep},{},${text('"x":1')},${deep}]}`)
    const places = response.json().details.map(({ path }: { path: string }) => path.split('/')[2])
    t.strictSame(places.sort(), ['0', '1', '3'])
  })

  t.test('unknown fields may be nested to any depth', async (t) => {
    for (const field of ['x', 'operations', 'events']) {
      const response = await post('/track', text(`"${field}":${nested(5_000)}`))
      t.equal(response.statusCode, 200, response.body)
    }
    const end = await post('/sessions/end', text(`"properties":${nested(MAX + 1)}`))
    t.equal(end.statusCode, 200, end.body)
  })

  t.test('a heavy body is refused before it is parsed', async (t) => {
    const isTooHeavy = async (path: string, max: number, body: string) => {
      const response = await post(path, body)
      t.equal(response.statusCode, 400, response.body)
      t.match(response.json(), { code: 'invalid_request', error: new RegExp(`too complex.* the limit is ${max}`) })
    }
    const batch = MAX_BATCH_WEIGHT
    await isTooHeavy('/track/batch', batch, `{"events":${'['.repeat(10_000_000)}`)
    // Commas alone are expensive, too.
    await isTooHeavy('/track/batch', batch, `{"events":[${text(`"x":[${'0,'.repeat(batch)}0]`)}]}`)
    // In the properties of a body that must be parsed, and outside of them.
    const names = '"a":1,'.repeat(batch / 8)
    await isTooHeavy('/track/batch', batch, `{"events":[${text(`"\\u0070roperties":{${names}"b":"c"}`)}]}`)
    await isTooHeavy('/track/batch', batch, `{"events":[${text(`${names}"b":"c"}`)}]}`)
    const most: [path: string, max: number][] = [
      ['/users/identify', MAX_STATE_WEIGHT],
      ['/users/profile', MAX_STATE_WEIGHT],
      ['/sessions/start', MAX_STATE_WEIGHT],
      ['/sessions/update', MAX_STATE_WEIGHT],
    ]
    const escaped = `"\\u0070roperties":{${'"a":1,'.repeat(MAX_WEIGHT / 8)}"b":0}`
    await isTooHeavy('/track', MAX_WEIGHT, text(escaped))
    for (const [path, max] of most) await isTooHeavy(path, max, text(`"properties":{${'"a":1,'.repeat(max / 8)}"b":0}`))
  })

  t.test('accepted events can be read back', async (t) => {
    const { events } = (await call('GET', '/public/events?limit=1000')).json()
    t.equal(events.length, 2 + 2 + 4 + 3)
    t.equal((await app.inject('/health/ready')).statusCode, 200)
    const question = { kind: 'series', series: [{ event: 'e' }], from: 0, to: 9_999_999_999_999, interval: 'none' }
    const answer = await call('POST', '/public/query', { ...question, breakdown: ['properties.a.a'] })
    t.equal(answer.statusCode, 200, answer.body)
    const names = await call('GET', '/public/schema/properties')
    t.match(names.json().properties, [{ property: 'a' }])
  })
})
