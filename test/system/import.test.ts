import t from 'tap'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { ANY_STORAGE, type Client, realEvents, settingsFor, startApp } from '../helper.js'

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

for (const storage of ANY_STORAGE) {
  t.test(`the real events on ${storage}`, async (t) => {
    const settings = await settingsFor(t, storage)
    const client = await startApp(t, settings)
    const lines = await realEvents()
    t.equal(lines.length, 12_416)

    for (let start = 0; start < lines.length; start += BATCH) {
      const batch = lines.slice(start, start + BATCH)
      const response = await client.call('POST', '/public/track/batch', `{"events":[${batch.join(',')}]}`)
      t.strictSame(response.json(), { status: 1, error: null, accepted: batch.length })
    }

    const exported = await exportAll(client)
    t.strictSame(exported.map(essence), lines.map(essence), 'all come out as they went in, in their order')
    const ids = exported.map((text) => JSON.parse(memberText(text, 'eventId') ?? ''))
    t.equal(new Set(ids).size, lines.length)

    const properties = '{"edited" : 1.50}'
    t.equal((await client.call('PUT', `/public/events/${ids[7]}`, `{"properties":${properties}}`)).statusCode, 200)
    t.equal((await client.call('DELETE', `/public/events/${ids[9]}`)).statusCode, 200)
    const expected = lines.map(essence)
    expected[7] = [...essence(lines[7] ?? '').slice(0, 3), properties]
    expected.splice(9, 1)
    t.strictSame(
      (await exportAll(client)).map(essence),
      expected,
      'one is edited, one is gone, the others are the same',
    )
  })
}
