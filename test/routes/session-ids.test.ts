import t from 'tap'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { randomName } from '../helper.js'
import { newProject, sharedApp } from '../shared-app.js'
import { eventCalls, isRefused } from './event-calls.js'

const NDJSON = { 'content-type': 'application/x-ndjson' }
/** Ids as JSON spells them, and as the service returns them; none if the event belongs to no session. */
const IDS: [sent: string, returned: string | undefined][] = [
  ['"visit-1"', '"visit-1"'],
  ['"\\u0041\\/\\ud83d\\ude00"', '"A/😀"'],
  ['"1700000000123"', '"1700000000123"'],
  [`"${'é'.repeat(255)}"`, `"${'é'.repeat(255)}"`],
  ['"\\u0000\\"\\\\"', '"\\u0000\\"\\\\"'],
  ['null', undefined],
]
const REFUSED = ['5', '-1', 'true', '""', '[]', '{}', `"${'x'.repeat(256)}"`, '"\\ud800"']

t.test('session ids of events', async (t) => {
  const client = await newProject(await sharedApp('lanes'))
  const { call } = client
  const { user, putText } = eventCalls(client)

  const event = (distinct_id: string, id: string, { name = '"session_id"', more = '' } = {}) =>
    `{${name} : ${id},"event":"e","distinct_id":"${distinct_id}","properties":{ "session_id":1.0 }${more}}`
  const texts = async (query: string) =>
    elementTexts(memberText((await call('GET', `/public/events?limit=1000&${query}`)).body, 'events') ?? '')
  /** The session of each of a user's events; only those of one lane are in order. */
  const sessionsOf = async (user: string) =>
    (await texts(`distinct_id=${user}`)).map((text) => memberText(text, 'session_id')).sort()

  t.test('every call that takes events takes session_id, whatever else is in the body', async (t) => {
    const track = (text: string, headers = {}) => call('POST', '/public/track', text, headers)
    const doors: Record<string, (user: string) => Promise<{ statusCode: number }>[]> = {
      track: (user) => IDS.map(([id]) => track(event(user, id))),
      'track, with a time that is not scanned': (user) =>
        IDS.map(([id]) => track(event(user, id, { more: ',"timestamp":1.5' }))),
      'track, with an escape in the name': (user) =>
        IDS.map(([id]) => track(event(user, id, { name: '"session\\u005fid"' }))),
      'track, with an insert_id': (user) =>
        IDS.map(([id], n) => track(event(user, id, { more: `,"insert_id":"i${n}"` }))),
      'track, with a key': (user) =>
        IDS.map(([id]) => track(event(user, id), { 'idempotency-key': randomName('key') })),
      batch: (user) => [call('POST', '/public/track/batch', `{"events":[${IDS.map(([id]) => event(user, id))}]}`)],
      'batch, with a time that is not scanned': (user) => [
        call(
          'POST',
          '/public/track/batch',
          `{"events":[${IDS.map(([id]) => event(user, id))},{"event":"e","distinct_id":"other","timestamp":1.5}]}`,
        ),
      ],
      lines: (user) => [call('POST', '/public/import', IDS.map(([id]) => event(user, id)).join('\n'), NDJSON)],
      'lines without properties': (user) => [
        call(
          'POST',
          '/public/import',
          IDS.map(([id]) => `{"event":"e","distinct_id":"${user}","session_id":${id}}`).join('\n'),
          NDJSON,
        ),
      ],
    }
    const wanted = IDS.map(([, returned]) => returned).sort()
    for (const [door, send] of Object.entries(doors)) {
      const distinctId = user()
      for (const { statusCode } of await Promise.all(send(distinctId))) t.equal(statusCode, 200, door)
      t.strictSame(await sessionsOf(distinctId), wanted, door)
    }
  })

  t.test('an id that is no name is refused', async (t) => {
    const distinctId = user()
    for (const id of REFUSED) {
      const text = event(distinctId, id)
      isRefused(t, await call('POST', '/public/track', text), 400, 'invalid_request', '/session_id')
      const batch = await call('POST', '/public/track/batch', `{"events":[${event(distinctId, '"s"')},${text}]}`)
      isRefused(t, batch, 400, 'invalid_request', '/events/1/session_id')
      isRefused(t, await call('POST', '/public/import', text, NDJSON), 400, 'invalid_request', '/events/0/session_id')
    }
    t.strictSame(await texts(`distinct_id=${distinctId}`), [])
  })

  t.test('every read has it, an edit keeps it, and the filter finds it', async (t) => {
    const distinctId = user()
    const session = randomName('visit "1" ')
    const id = JSON.stringify(session)
    const more = ',"timestamp":5,"insert_id":"i"'
    t.equal((await call('POST', '/public/track', event(distinctId, id, { more }))).statusCode, 200)
    t.equal((await call('POST', '/public/track', event(distinctId, '"other"'))).statusCode, 200)
    t.equal((await call('POST', '/public/track', event(user(), id))).statusCode, 200)
    const query = new URLSearchParams({ session_id: session })
    const own = `${query}&distinct_id=${distinctId}`
    const [text = '', ...others] = await texts(own)
    t.strictSame(others, [])
    const { eventId } = JSON.parse(text)
    const written = (properties: string) =>
      `{"eventId":"${eventId}","event":"e","distinct_id":"${distinctId}","properties":${properties},"timestamp":5,"insert_id":"i","session_id":${id}}`
    const check = async (properties: string) => {
      const full = written(properties)
      t.strictSame(await texts(own), [full])
      t.equal((await call('GET', `/public/events/${eventId}`)).body, `{"status":1,"error":null,"event":${full}}`)
      t.equal((await call('GET', `/public/export?${own}`)).body, `${full}\n`)
      t.match((await call('GET', `/public/users/${distinctId}/export`)).body, full.slice(1))
    }
    await check('{ "session_id":1.0 }')
    t.equal((await putText(eventId, '{"edited" : 1.0}')).statusCode, 200)
    await check('{"edited" : 1.0}')
    t.equal((await texts(`${query}`)).length, 2, 'of both users')
    t.equal((await call('GET', `/public/export?${query}&event=none`)).body, '')
    for (const path of ['events', 'events/live', 'export']) {
      isRefused(t, await call('GET', `/public/${path}?session_id=`), 400, 'invalid_request', '/session_id')
    }
  })
})
