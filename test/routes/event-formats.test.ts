import { Readable } from 'node:stream'
import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import type { LightMyRequestResponse } from 'fastify'
import t from 'tap'
import type { ClickHouse } from '../../src/clickhouse/client.js'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { openStore } from '../../src/store/open.js'
import { type Client, randomName } from '../helper.js'
import { newProject } from '../shared-app.js'

/** An event as in every format; `properties` is a text. */
interface Row {
  eventId: string
  event: string
  distinct_id: string
  properties: string
  timestamp: number
  insert_id?: string
  session_id?: string
  context?: object
}

type Sent = Pick<Row, 'event' | 'insert_id' | 'session_id' | 'context'> & Partial<Pick<Row, 'properties' | 'timestamp'>>

const NAMES = ['eventId', 'event', 'distinct_id', 'properties', 'timestamp', 'insert_id', 'session_id', 'context']
const HEADER = `${NAMES.map((name) => `"${name}"`).join()}\r\n`
const ROW_FORMATS = ['ndjson', 'csv', 'parquet'] as const

/** Adds the columns of ids and contexts, which are empty if an event has none. */
function withIds(row: Row, insert_id = '', session_id = '', context = ''): Row {
  const ids = { ...(insert_id !== '' && { insert_id }), ...(session_id !== '' && { session_id }) }
  return { ...row, ...ids, ...(context !== '' && { context: JSON.parse(context) }) }
}

function jsonRow(text: string): Row {
  return { ...JSON.parse(text), properties: memberText(text, 'properties') }
}

function jsonRows({ body }: LightMyRequestResponse): Row[] {
  const list = memberText(body, 'events') ?? ''
  return elementTexts(list).map((text) => jsonRow(text))
}

function ndjsonRows({ body }: LightMyRequestResponse): Row[] {
  if (body !== '' && !body.endsWith('\n')) throw new Error('the last line has no end')
  return body.split('\n').slice(0, -1).map(jsonRow)
}

function csvRows({ body }: LightMyRequestResponse): Row[] {
  const [names, ...rows] = parse(body, { record_delimiter: '\r\n', relax_column_count: false }) as string[][]
  if (names?.join() !== NAMES.join()) throw new Error(`the header is ${names}`)
  return rows.map(([eventId = '', event = '', distinct_id = '', properties = '', timestamp = '', ...ids]) => {
    return withIds({ eventId, event, distinct_id, properties, timestamp: Number(timestamp) }, ...ids)
  })
}

/** Lets ClickHouse read the file with the types in its schema. */
async function readParquet(reader: ClickHouse, { rawPayload }: LightMyRequestResponse): Promise<Row[]> {
  const table = randomName('parquet').replace('-', '_')
  const columns = NAMES.map((name) => `${name} ${name === 'timestamp' ? 'Float64' : 'String'}`)
  await reader.command(`CREATE TABLE ${table} (${columns}) ENGINE = Memory`)
  const body = Readable.from([rawPayload], { objectMode: false })
  await reader.insert(`INSERT INTO ${table} FORMAT Parquet`, body, {}, AbortSignal.timeout(60_000))
  const rows = await reader.rows<Omit<Row, 'context'> & { context: string }>(`SELECT * FROM ${table}`)
  return rows.map(({ insert_id, session_id, context, ...row }) => withIds(row, insert_id, session_id, context))
}

const onOneLine = (rows: Row[]) => rows.map((row) => ({ ...row, properties: row.properties.replace(/[\r\n]/g, ' ') }))

async function send({ call }: Client, distinct_id: string, events: Sent[]): Promise<void> {
  const texts = events.map(({ properties = '{}', ...event }) => {
    return `${JSON.stringify({ ...event, distinct_id }).slice(0, -1)},"properties":${properties}}`
  })
  const response = await call('POST', '/public/track/batch', `{"events":[${texts.join()}]}`)
  if (response.statusCode !== 200) throw new Error(response.body)
}

const NASTY: Sent[] = [
  { event: 'plain', properties: '{"a":1.0,"b":1e400,"c":123456789012345678901234567890,"a":null}', timestamp: 0 },
  { event: '=1+1', properties: '{"formula":"=HYPERLINK(\\"http://x\\")"}', timestamp: 9_999_999_999_999 },
  { event: '@SUM(A1)', properties: '{"+":"-"}', timestamp: 1588628831000.25 },
  { event: 'a,b;c"d""e\'f', properties: '{ "a" : "," }', timestamp: 0.1 },
  { event: 'line\nbreak\r\nand\ttab', properties: '{"e":"\\n\\r\\u000a\\\\n"}' },
  { event: '\r', properties: '{\r\n\t"a" : [ 1,\n 2 ]\r}' },
  { event: '\\N', properties: '{"e":"\\u0000\\ud800\\/\\u00e9"}' },
  { event: 'NULL', properties: '{"u":"😀\u2028\u2029\u0085\u007f\ufeff"}' },
  { event: ' 😀 ', properties: `{"long":"${'x'.repeat(100_000)}"}` },
  { event: '\u0000', properties: '{}' },
  { event: 'both', insert_id: 'i,"\n\u0000', session_id: "=s'\t😀\u2028\\N" },
  { event: 'id', insert_id: 'NULL' },
  {
    event: 'context',
    context: { browser: '"\\\n\u0000,\'😀', device: 'tv', country: 'AT', city: 'NULL', language: '\\N', bot: true },
  },
  { event: 'context of a session', session_id: 's', context: { region: '=1+1' } },
  { event: 'bot', context: { bot: true } },
  { event: 'session', session_id: '-1', properties: '{"session_id":5,"$session_id":"x"}' },
]

/** A JSON object as a text with any white space between its tokens. */
const spaced = fc
  .tuple(
    fc.dictionary(fc.string(), fc.jsonValue()),
    fc.array(fc.constantFrom('', ' ', '\n', '\r\n', '\t', '\r'), { minLength: 1 }),
  )
  .map(([value, spaces]) => {
    const tokens = JSON.stringify(value).match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^"{}[\],:]+/g) ?? []
    return tokens.map((token, i) => token + (i + 1 < tokens.length ? spaces[i % spaces.length] : '')).join('')
  })

t.test('rows are returned as they were sent', async (t) => {
  const client = await newProject()
  const { call } = client
  const { clickhouse: reader, close } = await openStore(client.config)
  t.teardown(close)
  const parquetRows = (response: LightMyRequestResponse) => readParquet(reader, response)
  const READ = { json: jsonRows, ndjson: ndjsonRows, csv: csvRows, parquet: parquetRows }
  const get = async (query: string, accept?: string) => {
    const response = await call('GET', `/public/events?${query}`, undefined, accept === undefined ? {} : { accept })
    if (response.statusCode !== 200) throw new Error(`${query}: ${response.body}`)
    return response
  }

  t.test('every format has the same rows', async (t) => {
    const user = randomName('=user,"')
    await send(client, user, NASTY)
    const query = new URLSearchParams({ distinct_id: user }).toString()
    const rows = jsonRows(await get(query))
    t.strictSame(
      rows.map(({ eventId: _, distinct_id: __, timestamp: ___, ...row }) => row),
      NASTY.map(({ timestamp: _, properties = '{}', ...sent }) => ({ ...sent, properties })),
    )
    t.strictSame(ndjsonRows(await get(`${query}&format=ndjson`)), onOneLine(rows))
    t.strictSame(csvRows(await get(`${query}&format=csv`)), rows)
    t.strictSame(await parquetRows(await get(`${query}&format=parquet`)), rows)
  })

  t.test('a line of NDJSON is one line, whatever white space a client sends', async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(spaced, { minLength: 1, maxLength: 50 }), async (texts) => {
        const user = randomName('spaced')
        const sent = texts.map((properties, n) => ({ event: `e${n}`, properties }))
        await send(client, user, sent)
        const query = `limit=1000&distinct_id=${user}`
        const rows = jsonRows(await get(query))
        t.strictSame(
          rows.map(({ properties }) => properties),
          texts,
        )
        t.strictSame(ndjsonRows(await get(`${query}&format=ndjson`)), onOneLine(rows))
        t.strictSame(csvRows(await get(`${query}&format=csv`)), rows)
      }),
      { numRuns: 3 },
    )
  })

  t.test('exact bytes of NDJSON and CSV', async (t) => {
    await send(client, 'bytes', [{ event: 'a "b"', properties: '{"p":\n"q"}', timestamp: 1000.5 }])
    const [row] = jsonRows(await get('distinct_id=bytes'))
    const ndjson = await get('distinct_id=bytes&format=ndjson')
    t.equal(
      ndjson.body,
      `{"eventId":"${row?.eventId}","event":"a \\"b\\"","distinct_id":"bytes","properties":{"p": "q"},"timestamp":1000.5}\n`,
    )
    const csv = await get('distinct_id=bytes&format=csv')
    t.equal(csv.body, `${HEADER}"${row?.eventId}","a ""b""","bytes","{""p"":\n""q""}",1000.5,"","",""\r\n`)
    await send(client, 'ids', [{ event: 'a', timestamp: 1, insert_id: 'i "1"', session_id: 's "1"' }])
    const [named] = jsonRows(await get('distinct_id=ids'))
    const start = `{"eventId":"${named?.eventId}","event":"a","distinct_id":"ids","properties":{},"timestamp":1`
    t.equal(
      (await get('distinct_id=ids&format=ndjson')).body,
      `${start},"insert_id":"i \\"1\\"","session_id":"s \\"1\\""}\n`,
    )
    t.equal(
      (await get('distinct_id=ids&format=csv')).body,
      `${HEADER}"${named?.eventId}","a","ids","{}",1,"i ""1""","s ""1""",""\r\n`,
    )
  })

  t.test('pages and cursors, with the envelope in headers', async (t) => {
    const user = randomName('user')
    await send(
      client,
      user,
      Array.from({ length: 7 }, (_, n) => ({ event: `e${n}`, timestamp: n })),
    )
    const wanted = jsonRows(await get(`limit=100&distinct_id=${user}`))
    for (const format of ROW_FORMATS) {
      for (const limit of [3, 7]) {
        const pages = Math.ceil(7 / limit)
        const seen: Row[][] = [[], []]
        let cursor = ''
        for (let page = 1; page <= pages; page++) {
          const ways = [`&page=${page}`, cursor].map((way) => `limit=${limit}&distinct_id=${user}${way}`)
          const { hasMore, next } = (await get(ways[0] ?? '')).json()
          for (const [way, query] of ways.entries()) {
            const response = await get(`${query}&format=${format}`)
            seen[way]?.push(...(await READ[format](response)))
            const headers = [response.headers['x-has-more'], response.headers['x-next-cursor'] ?? null]
            t.strictSame(headers, [String(hasMore), next], `${format}: ${query}`)
            t.equal(response.headers['x-pending'], '0')
          }
          cursor = `&cursor=${next}`
        }
        t.strictSame(seen, [wanted, wanted], `${format} by ${limit}`)
      }
    }
  })

  t.test('no rows', async (t) => {
    for (const query of ['page=1000&limit=10000', 'distinct_id=nobody&from=5&to=5']) {
      t.equal((await get(`${query}&format=ndjson`)).body, '')
      t.equal((await get(`${query}&format=csv`)).body, HEADER)
      const parquet = await get(`${query}&format=parquet`)
      t.equal(parquet.rawPayload.toString('latin1', 0, 4), 'PAR1')
      t.equal(parquet.rawPayload.toString('latin1', parquet.rawPayload.length - 4), 'PAR1')
      t.strictSame(await parquetRows(parquet), [])
      t.match(parquet.headers, { 'x-has-more': 'false', 'x-pending': '0', 'x-next-cursor': undefined })
    }
  })

  t.test('types of a Parquet file', async (t) => {
    const file = (await get('limit=1&format=parquet')).rawPayload
    const types = await reader.rows<{ name: string; type: string }>(
      `DESCRIBE format(Parquet, base64Decode('${file.toString('base64')}'))`,
    )
    t.strictSame(
      types.map(({ name, type }) => `${name} ${type}`),
      NAMES.map((name) => `${name} ${name === 'timestamp' ? 'Float64' : 'String'}`),
    )
  })

  t.test('the query decides the format, or else Accept', async (t) => {
    const types = {
      json: 'application/json; charset=utf-8',
      ndjson: 'application/x-ndjson; charset=utf-8',
      csv: 'text/csv; charset=utf-8; header=present',
      parquet: 'application/vnd.apache.parquet',
    }
    for (const [format, type] of Object.entries(types)) {
      for (const response of [
        await get('limit=1', `${type}, */*`),
        await get(`limit=1&format=${format}`, 'text/csv'),
      ]) {
        t.equal(response.headers['content-type'], type)
        t.equal(response.headers.vary, 'accept')
        const disposition = format === 'json' ? undefined : `attachment; filename="events.${format}"`
        t.equal(response.headers['content-disposition'], disposition)
      }
    }
    t.equal((await get('limit=1', 'text/html')).headers['content-type'], types.json)
  })

  t.test('an unknown format is refused', async (t) => {
    for (const format of ['xml', '', 'JSON', 'json&format=csv', 'toString']) {
      const response = await call('GET', `/public/events?format=${format}`)
      t.equal(response.statusCode, 400)
      t.match(response.json(), {
        status: 0,
        code: 'invalid_request',
        details: [{ path: '/format', message: format.includes('&') ? 'is given more than once' : /json, ndjson/ }],
      })
    }
    const response = await call('GET', '/public/events?format=csv&limit=10001')
    t.match(response.json(), { code: 'invalid_request', details: [{ path: '/limit' }] })
  })

  t.test('filters, alone and together, with pages, cursors and formats, between edits and deletes', async (t) => {
    const who = [randomName('ann'), randomName('bob')]
    const names = ['view', 'click', 'buy']
    const sent = Array.from({ length: 60 }, (_, n) => ({
      event: names[n % 3] ?? '',
      distinct_id: who[n % 2] ?? '',
      // In the reverse order of acceptance, two at the same time.
      timestamp: 1000 - Math.floor(n / 2),
      ...(n % 4 > 0 && { session_id: `visit ${n % 4}` }),
      properties: { n },
    }))
    await call('POST', '/public/track/batch', { events: sent.slice(0, 30) })
    await call('POST', '/public/track/batch', { events: sent.slice(30) })
    const all = [...who.entries()].map(async ([, user]) => jsonRows(await get(`limit=1000&distinct_id=${user}`)))
    const rows = (await Promise.all(all)).flat().sort((a, b) => (a.eventId < b.eventId ? -1 : 1))
    t.equal(rows.length, 60)
    const mine = new Set(rows.map(({ eventId }) => eventId))

    const filters: { event?: string; distinct_id?: string; session_id?: string; from?: number; to?: number }[] = [
      { session_id: 'visit 1' },
      { session_id: 'visit 2', event: 'buy', from: 980, to: 995 },
      { session_id: 'visit' },
      { from: 980, to: 990, distinct_id: who[0] ?? '' },
      { from: 971, to: 1001, event: 'view', distinct_id: who[1] ?? '' },
      { from: 985, event: 'click' },
      { to: 985, event: 'buy', distinct_id: who[0] ?? '' },
      { from: 971, to: 1001 },
      { from: 980, to: 980 },
      { event: 'view', distinct_id: who[0] ?? '' },
    ]
    const formats = ['json', ...ROW_FORMATS] as const
    /** Checks each filter by pages in one format, and by cursors in the next one. */
    const check = async (first: number) => {
      for (const [i, filter] of filters.entries()) {
        const wanted = rows.filter(
          ({ event, distinct_id, session_id, timestamp }) =>
            (filter.session_id === undefined || session_id === filter.session_id) &&
            (filter.event === undefined || event === filter.event) &&
            (filter.distinct_id === undefined || distinct_id === filter.distinct_id) &&
            (filter.from === undefined || timestamp >= filter.from) &&
            (filter.to === undefined || timestamp < filter.to),
        )
        const query = Object.entries(filter)
          .map(([name, value]) => `${name}=${value}`)
          .join('&')
        for (const [n, by] of ['page', 'cursor'].entries()) {
          const format = formats[(first + i + n) % formats.length] ?? 'json'
          const seen: Row[] = []
          let next: unknown
          for (let page = 1; page === 1 || next; page++) {
            const way = by === 'page' || page === 1 ? `page=${page}` : `cursor=${next}`
            const response = await get(`${query}&limit=25&format=${format}&${way}`)
            const found = await READ[format](response)
            const { hasMore, next: cursor } =
              format === 'json'
                ? response.json()
                : { hasMore: response.headers['x-has-more'] === 'true', next: response.headers['x-next-cursor'] }
            t.equal(hasMore, typeof cursor === 'string')
            if (hasMore) t.equal(found.length, 25)
            seen.push(...found)
            next = cursor
          }
          t.strictSame(
            seen.filter(({ eventId }) => mine.has(eventId)),
            wanted,
            `${format} by ${by}: ${query}`,
          )
        }
      }
    }
    await check(0)
    // Every seventh is deleted, also at the edges of pages, and every fifth is changed.
    const changes = rows.map(async ({ eventId }, n) => {
      if (n % 7 === 0) await call('DELETE', `/public/events/${eventId}`)
      else if (n % 5 === 0) await call('PUT', `/public/events/${eventId}`, '{"properties":{"edited" : 1.0}}')
    })
    await Promise.all(changes)
    for (const [n, row] of rows.entries()) if (n % 5 === 0) row.properties = '{"edited" : 1.0}'
    for (let n = 56; n >= 0; n -= 7) rows.splice(n, 1)
    t.equal(rows.length, 51)
    await check(2)
  })

  t.test('a filtered walk continues past events that are deleted or arrive meanwhile', async (t) => {
    for (const format of ['json', 'ndjson'] as const) {
      const user = randomName('walked')
      const other = randomName('other')
      const both = (n: number) => [`e${n}`, `f${n}`].map((event) => ({ event, distinct_id: n % 2 ? user : other }))
      for (let n = 0; n < 10; n++) await call('POST', '/public/track/batch', { events: both(n) })
      const all = jsonRows(await get(`distinct_id=${user}`))
      const seen: Row[] = []
      let next: string | undefined
      for (let page = 1; page === 1 || next; page++) {
        const response = await get(`distinct_id=${user}&limit=3&format=${format}${next ? `&cursor=${next}` : ''}`)
        seen.push(...READ[format](response))
        next = format === 'json' ? response.json().next : response.headers['x-next-cursor']
        if (page === 1) {
          // One event that was read, that of the cursor, and one after it.
          for (const n of [1, 3, 5]) await call('DELETE', `/public/events/${all[n]?.eventId}`)
          await call('POST', '/public/track/batch', { events: [...both(10), ...both(11)] })
        }
      }
      t.strictSame(
        seen.map(({ event }) => event),
        ['e1', 'f1', 'e3', 'e5', 'e7', 'f7', 'e9', 'f9', 'e11', 'f11'],
        format,
      )
    }
  })

  t.test('an event is in the next response after its own', async (t) => {
    const user = randomName('user')
    for (let n = 1; n <= 3; n++) {
      await send(client, user, [{ event: `e${n}` }])
      const format = ROW_FORMATS[n % 3] ?? 'csv'
      const rows = await READ[format](await get(`distinct_id=${user}&format=${format}`))
      t.equal(rows.at(-1)?.event, `e${n}`)
    }
  })
})
