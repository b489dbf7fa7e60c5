import t from 'tap'
import { openStore } from '../../../src/store/open.js'
import { until } from '../../helper.js'
import { addSdkProject } from './sdk-app.js'

t.test('messages of Mixpanel, Amplitude and OpenPanel that cannot be stored become dead letters', async (t) => {
  const { client, projectId, keys, inject, user } = await addSdkProject()
  const post = (url: string, payload: unknown, headers: Record<string, string> = {}) =>
    inject({ method: 'POST', url, payload: JSON.stringify(payload), headers })
  const token = keys.write
  const sent: [reason: RegExp, said: RegExp, answer: () => ReturnType<typeof post>][] = [
    [
      /another project/,
      /foreign/,
      () =>
        post('/mixpanel/track', [
          { event: 'good', properties: { token } },
          { event: 'e', properties: { token: 'foreign', key: token } },
        ]),
    ],
    [/names no user/, /nobody/, () => post('/mixpanel/engage', { $token: token, $set: { nobody: 1 } })],
    [
      /neither a user_id nor a device_id/,
      /homeless/,
      () =>
        post('/amplitude/2/httpapi', {
          api_key: token,
          events: [{ event_type: 'homeless', event_properties: { token } }],
        }),
    ],
    [
      /distinct_id must be a string of 1 to 255 characters/,
      /far too long/,
      () =>
        post('/mixpanel/engage', [
          { $token: token, $distinct_id: 'x'.repeat(256), $set: { name: 'far too long' } },
          { $token: token, $distinct_id: 'short', $set: { name: 'good' } },
        ]),
    ],
    [
      /no type that OpenPanel knows/,
      /unheard of/,
      () => post('/openpanel/track', { type: 'unheard of', payload: { token } }, { 'openpanel-client-id': token }),
    ],
  ]
  for (const [, , answer] of sent) t.ok((await answer()).statusCode < 500)
  t.strictSame(await user('short'), { name: 'good' }, 'the others are not touched')
  const { clickhouse, close } = await openStore(client.config)
  t.teardown(close)
  const letters = await until('the dead letters', async () => {
    const rows = await clickhouse.rows<{ reason: string; body: string }>(
      'SELECT reason, body FROM dead_letters WHERE project_id = {projectId:String}',
      { projectId },
    )
    return rows.length >= sent.length && rows.map(({ reason, body }) => reason + body)
  })
  t.equal(letters.length, sent.length)
  for (const [reason, said] of sent)
    t.ok(
      letters.some((letter) => reason.test(letter) && said.test(letter)),
      String(reason),
    )
  t.notMatch(letters.join(), token, 'without the key')
})

t.test('a request with more messages than any vendor allows is refused', async (t) => {
  const { keys, inject } = await addSdkProject()
  const many = `[${'0,'.repeat(20_000)}0]`
  const key = `"${keys.write}"`
  for (const [url, payload] of [
    ['/segment/v1/batch', `{"writeKey":${key},"batch":${many}}`],
    ['/posthog/batch', `{"api_key":${key},"batch":${many}}`],
    ['/mixpanel/track', `[{"properties":{"token":${key}}},${many.slice(1)}`],
    ['/mixpanel/import', `{"event":"a","properties":{"token":${key}}}\n${'x\n'.repeat(20_000)}`],
    ['/amplitude/2/httpapi', `{"api_key":${key},"events":${many}}`],
  ] as const) {
    const { statusCode, body } = await inject({ method: 'POST', url, payload })
    t.equal(statusCode, 413, url)
    t.match(body, /over 20000 messages\. Send fewer\./, url)
  }
})
