import t from 'tap'
import { Turns } from '../../../src/lib/turns.js'
import { planMessages } from '../../../src/routes/vendors/ingest.js'
import type { SdkMessage } from '../../../src/vendors/message.js'
import { fromServer } from '../../helper.js'
import { addSdkProject } from './sdk-app.js'

const HOSTILE = [
  '{"toString":""}',
  '{"valueOf":5,"toString":null}',
  '{"__proto__":{"toString":1}}',
  '[{"toString":""}]',
]

t.test('no value in a message affects its neighbours, in any call', async (t) => {
  const { post, events, keys } = await addSdkProject()
  const token = keys.write
  /** Wraps a hostile message in a request with a good message before and after it. */
  const doors: [url: string, wrap: (good: string, hostile: string) => string, fields: string[]][] = [
    [
      '/segment/v1/batch',
      (event, value) => batch(`{"type":"track","event":"${event}","userId":"u"}`, value),
      ['type', 'event', 'userId', 'messageId', 'properties', 'context', 'timestamp', 'writeKey'],
    ],
    [
      '/posthog/batch/',
      (event, value) => batch(`{"event":"${event}","distinct_id":"u"}`, value),
      ['event', 'distinct_id', 'uuid', 'properties', 'timestamp', 'offset', '$set', 'token', 'library'],
    ],
    [
      '/mixpanel/track',
      (event, value) => {
        const good = `{"event":"${event}","properties":{"token":"${token}","distinct_id":"u"}}`
        return `[${good},${value},${good}]`
      },
      ['event', 'properties'],
    ],
    [
      '/amplitude/2/httpapi',
      (event, value) => {
        const good = `{"event_type":"${event}","user_id":"u"}`
        return `{"api_key":"${token}","events":[${good},${value},${good}]}`
      },
      ['event_type', 'user_id', 'insert_id', 'time', 'event_properties', 'user_properties', 'groups', 'library'],
    ],
  ]
  function batch(good: string, value: string): string {
    return `{"api_key":"${token}","batch":[${good},${value},${good}]}`
  }
  for (const [url, wrap, fields] of doors) {
    let sent = 0
    for (const field of fields) {
      for (const value of HOSTILE) {
        const message = `{"type":"track","event":"e","event_type":"e","user_id":"v","${field}":${value}}`
        const response = await post(url, wrap(url, message), url.startsWith('/amplitude') ? { authorization: '' } : {})
        // After a 400 that names the invalid events, Amplitude's SDKs send the others again.
        const isAgain = url.startsWith('/amplitude') && response.statusCode === 400
        t.ok(response.statusCode === 200 || isAgain, `${url} ${field} ${value}: ${response.statusCode}`)
        if (!isAgain) sent += 2
      }
    }
    const stored = (await events()).filter(({ event }) => event === url)
    t.equal(stored.length, sent, url)
  }
})

t.test('a first message without a key of the project does not affect the others', async (t) => {
  const { post, events, keys } = await addSdkProject()
  const token = keys.write
  const firsts = ['null', '1', '"x"', '[]', '{}', '{"properties":null}', '{"properties":[]}']
  const tokens = ['{}', '[]', '""', 'null', '1e400', '"wk_of_nobody"']
  const all = [...firsts, ...tokens.map((one) => `{"event":"bad","properties":{"token":${one}}}`)]
  for (const [i, first] of all.entries()) {
    const good = `{"event":"good ${i}","properties":{"token":"${token}","distinct_id":"u"}}`
    for (const url of ['/mixpanel/track', '/posthog/e/']) {
      const { statusCode } = await post(url, `[${first},${good}]`, { authorization: '' })
      t.equal(statusCode, 200, `${url} ${first}`)
    }
  }
  const found = (await events()).map(({ event }) => event).filter((event) => event.startsWith('good'))
  t.equal(found.length, 2 * all.length)
  const unknown = `{"event":"bad","properties":{"token":"wk_of_nobody"}}`
  t.equal(
    (await post('/mixpanel/track', `[${unknown},${unknown}]`, { authorization: '' })).statusCode,
    401,
    'no key of any project',
  )
})

t.test('other requests go first between the messages of a request', async (t) => {
  let now = 0
  const turns = new Turns({ clock: () => now })
  const takeTurn = () => {
    // The previous work took longer than a slice.
    now += 10
    return turns.take(() => 'large')
  }
  const messages = Array.from({ length: 5 }, (_, n): SdkMessage => {
    const parts = { event: 'e', distinct_id: `u${n}`, timestamp: undefined, properties: '{}' }
    return { type: 'event', parts, insertId: undefined }
  })
  let isPlanned = false
  const planning = planMessages(fromServer('large'), messages, { takeTurn }).finally(() => {
    isPlanned = true
  })
  await turns.take(() => 'small')
  t.notOk(isPlanned, 'the request of another project did not wait for all messages')
  t.equal((await planning).batches[0]?.count, messages.length)
})
