import t from 'tap'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { type Client, realEvents, type StoredEvent } from '../helper.js'
import { newProject } from '../shared-app.js'

const BATCH = 1000

/** Every event of the project as its exact response text, in pages of 10 000. */
async function exportAll({ call }: Client): Promise<string[]> {
  const texts: string[] = []
  for (let cursor = ''; ; ) {
    const { body } = await call('GET', `/public/events?limit=10000${cursor}`)
    const list = memberText(body, 'events') ?? ''
    texts.push(...elementTexts(list))
    const next = JSON.parse(memberText(body, 'next') ?? 'null')
    if (next === null) return texts
    cursor = `&cursor=${next}`
  }
}

/** The parts that must be identical on the way out. */
function essence(text: string): string[] {
  return ['event', 'distinct_id', 'timestamp', 'properties'].map((name) => memberText(text, name) ?? 'missing')
}

t.test('the real events', async (t) => {
  const client = await newProject()
  const lines = await realEvents()
  t.equal(lines.length, 12_416)

  for (let start = 0; start < lines.length; start += BATCH) {
    const batch = lines.slice(start, start + BATCH)
    const response = await client.call('POST', '/public/track/batch', `{"events":[${batch.join(',')}]}`)
    t.strictSame(response.json(), { status: 1, error: null, accepted: batch.length })
  }

  const first = (await client.call('GET', '/public/events?limit=10')).json().events as StoredEvent[]
  const path = (index: number) => `/public/events/${first[index]?.eventId}`
  const properties = '{"edited" : 1.50}'
  t.equal((await client.call('PUT', path(7), `{"properties":${properties}}`)).statusCode, 200)
  t.equal((await client.call('DELETE', path(9))).statusCode, 200)
  const expected = lines.map(essence)
  expected[7] = [...essence(lines[7] ?? '').slice(0, 3), properties]
  expected.splice(9, 1)

  const exported = await exportAll(client)
  t.equal(exported.length, expected.length)
  const other = exported.findIndex((text, i) => essence(text).join('\n') !== expected[i]?.join('\n'))
  t.equal(exported[other], undefined, 'all but two are exported as they were sent, in order')
  const ids = exported.map((text) => memberText(text, 'eventId'))
  t.equal(new Set(ids).size, expected.length)
})
