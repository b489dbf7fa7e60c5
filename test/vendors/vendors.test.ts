import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openFile } from '../../src/cli/import/input.js'
import type { SourceOptions } from '../../src/cli/import/native-rows.js'
import { batchesOf, eventsOf, pieces, rejectsOf } from '../cli/import/batches.js'

const DATA = fileURLToPath(new URL('../data/', import.meta.url))

function begins(text: string | undefined, start: string): void {
  t.equal(text?.slice(0, start.length), start)
}

t.test('each vendor decodes the events of its export', async (t) => {
  const vendor = async (file: string, from: NonNullable<SourceOptions['from']>) => {
    const batches = await batchesOf(await openFile(join(DATA, 'vendors', file)), { from })
    return { events: eventsOf(batches), rejects: rejectsOf(batches) }
  }
  const mixpanel = await vendor('mixpanel.ndjson', 'mixpanel')
  t.strictSame(mixpanel.events, [
    '{"event":"Signed up","distinct_id":"ada@example.com","timestamp":1704067200000,"insert_id":"Signed up:5d958f87-542d-4c10-9422-0ed75893dc81","properties":{"time":1704067200,"distinct_id":"ada@example.com","$insert_id":"5d958f87-542d-4c10-9422-0ed75893dc81","$browser":"Firefox","mp_country_code":"GB","plan":"pro","price":9.90}}',
    '{"event":"Song played","distinct_id":"42","timestamp":1704067261000,"insert_id":"Song played:29fc2962-6d9c-455d-95ad-95b84f09b9e4","properties":{"time":1704067261,"distinct_id":42,"$insert_id":"29fc2962-6d9c-455d-95ad-95b84f09b9e4","big":123456789012345678901234567890}}',
  ])
  t.match(mixpanel.rejects, [[3, /no time/]])
  const response = await batchesOf(pieces('{"page":0,"results":[{"$distinct_id":"ada"}]}'), { from: 'mixpanel' })
  t.match(rejectsOf(response), [[1, /whole response of \/engage\. Import its results/]])

  const amplitude = await vendor('amplitude.zip', 'amplitude')
  t.equal(amplitude.events.length, 2)
  begins(
    amplitude.events[0],
    '{"event":"signed up","distinct_id":"ada","timestamp":1704067200123,"insert_id":"i-1","properties":{"price": 9.90,"big":123456789012345678901234567890,"$amplitude":{"server_received_time":"2024-01-01 00:00:05.000000","app":123456,',
  )
  t.equal(
    amplitude.events[1],
    '{"event":"song played","distinct_id":"d-2","timestamp":1704070800000,"insert_id":"b1a3","properties":{"$amplitude":{"app":123456,"user_id":null,"uuid":"b1a3","event_time":"2024-01-01 01:00:00.000000","amplitude_id":900000000000000002,"event_id":2,"device_id":"d-2"}}}',
  )

  const posthog = await vendor('posthog.jsonl', 'posthog')
  t.strictSame(posthog.rejects, [])
  begins(
    posthog.events[0],
    '{"event":"$pageview","distinct_id":"ada","timestamp":1704067200123,"insert_id":"0190a1b2-0000-7000-8000-000000000001","properties":{"$current_url":"https://example.com/","price": 9.90,"$posthog":{"uuid":"0190a1b2-0000-7000-8000-000000000001","person_id":',
  )
  t.match(posthog.events[1], /^\{"event":"signed up","distinct_id":"grace","timestamp":1704067200000,/)
  t.strictSame((await vendor('posthog.csv', 'posthog')).events, [
    '{"event":"$pageview","distinct_id":"ada","timestamp":1704067200123,"insert_id":"0190a1b2-0000-7000-8000-000000000001","properties":{"$current_url":"https://example.com/","price": 9.90,"$posthog":{"uuid":"0190a1b2-0000-7000-8000-000000000001","timestamp":"2024-01-01T00:00:00.123456Z"}}}',
  ])

  const segment = await vendor('segment.ndjson', 'segment')
  begins(
    segment.events[0],
    '{"event":"Order Completed","distinct_id":"ada","timestamp":1704067200050,"insert_id":"ajs-1","properties":{"total":27.50,"products":[{"id":1}],"$segment":{"messageId":"ajs-1","type":"track",',
  )
  t.match(segment.events[1], /^\{"event":"page","distinct_id":"507f191e","timestamp":1704067260000,.*"name":"Pricing"/)
  t.match(segment.events[2], /^\{"event":"\$identify","distinct_id":"ada",.*"insert_id":"ajs-3"/)
  t.equal(segment.events.length, 3)
})

t.test('an empty id counts as missing', async (t) => {
  const userOf = async (from: NonNullable<SourceOptions['from']>, row: string) => {
    const batches = await batchesOf(pieces(row), { from })
    t.strictSame(rejectsOf(batches), [], row)
    return JSON.parse(eventsOf(batches)[0] ?? '{}').distinct_id
  }
  const time = '"timestamp":"2024-01-01T00:00:00Z"'
  t.equal(await userOf('segment', `{"type":"track","event":"a","userId":"","anonymousId":"anon",${time}}`), 'anon')
  t.equal(await userOf('mixpanel', '{"event":"a","properties":{"time":1,"distinct_id":"","$device_id":"d"}}'), 'd')
  const at = '"event_time":"2024-01-01 00:00:00"'
  t.equal(await userOf('amplitude', `{"event_type":"a","user_id":"","device_id":"","amplitude_id":7,${at}}`), '7')
})
