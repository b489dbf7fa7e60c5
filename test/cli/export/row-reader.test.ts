import * as fc from 'fast-check'
import t, { type Test } from 'tap'
import { type Piece, RowReader } from '../../../src/cli/export/row-reader.js'
import { Runs } from '../../../src/cli/export/runs.js'
import { Blocks } from '../../../src/cli/http/blocks.js'
import { Connection } from '../../../src/client/connection.js'
import type { RowFormat } from '../../../src/contract/formats.js'
import { cursorAfter, parseCursor } from '../../../src/model/cursor.js'
import { answer, type Fault, faultyServer } from '../../client/faulty-server.js'
import { SECRET_KEY } from '../../helper.js'

const NAMES = '"eventId","event","distinct_id","properties","timestamp","insert_id","session_id"\r\n'
const END = cursorAfter(id(999))

function id(number: number): string {
  return `0174876e-8000-7000-8000-${number.toString(16).padStart(12, '0')}`
}

/** A row of an event with this name, as the service writes it. */
function row(format: RowFormat, number: number, name: string): string {
  if (format === 'ndjson') return `${JSON.stringify({ eventId: id(number), event: name })}\n`
  return `"${id(number)}","${name.replaceAll('"', '""')}","u","{""a"":1}",5,"${name.replaceAll('"', '""')}",""\r\n`
}

const headers = (pending = 0) => ({
  'content-type': 'text/plain',
  'x-has-more': 'false',
  'x-pending': String(pending),
  'x-next-cursor': END,
})

/**
 * A response of these chunks, each sent once the previous one was read; then it breaks off if requested. A real
 * broken connection would drop unread bytes, so the reader's progress would be random.
 */
function chunked(chunks: Uint8Array[], breaks: boolean): Response {
  let sent = 0
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[sent++]
        if (chunk) controller.enqueue(chunk)
        else if (breaks) controller.error(new Error('broken'))
        else controller.close()
      },
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { headers: headers() })
}

function pieces(bytes: Buffer, cuts: number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return places.slice(1).map((end, i) => bytes.subarray(places[i], end))
}

async function open(t: Test, format: RowFormat, faults: Fault[], isFirst = true) {
  const { url, received } = await faultyServer(t, faults)
  return { ...read(t, format, new Connection({ url, secretKey: SECRET_KEY }), isFirst), received }
}

function read(t: Test, format: RowFormat, connection: Connection, isFirst = true) {
  const runs = new Runs(connection, format, {}, new AbortController().signal)
  t.teardown(() => runs.close())
  return { reader: new RowReader(runs, new Blocks(), format, null, isFirst), runs }
}

function readFrom(t: Test, format: RowFormat, respond: (url: URL) => Response): RowReader {
  const fetch = async (url: string) => respond(new URL(url))
  return read(t, format, new Connection({ url: 'http://localhost', secretKey: SECRET_KEY, fetch })).reader
}

async function readAll(reader: RowReader): Promise<Piece[]> {
  const all: Piece[] = []
  do all.push(await reader.read())
  while (!all.at(-1)?.isLast)
  return all
}

const text = fc.string({
  unit: fc.constantFrom('"', '\n', '\r', ',', '\r\n"', '"\r\n', 'a', 'ä', '0', 'x'.repeat(9000)),
})

for (const format of ['ndjson', 'csv'] as const) {
  t.test(`${format}: whatever is in the rows, they are cut between two`, async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(text, { maxLength: 30 }), fc.array(fc.nat(), { maxLength: 5 }), async (names, cuts) => {
        const rows = names.map((name, number) => row(format, number, name))
        const all = Buffer.from((format === 'csv' ? NAMES : '') + rows.join(''))
        const reader = readFrom(t, format, () => chunked(pieces(all, cuts), false))
        const found = await readAll(reader)
        if (!Buffer.concat(found.map(({ bytes }) => bytes)).equals(all)) throw new Error('other bytes')
        let count = 0
        for (const { rows: here, next, isLast } of found) {
          count += here
          if (!isLast && next !== cursorAfter(id(count - 1))) throw new Error('another cursor')
        }
        if (count !== names.length || found.at(-1)?.next !== END) throw new Error(`${count} rows`)
      }),
      { numRuns: 20 },
    )
  })

  t.test(`${format}: a stream that breaks is resumed after its last whole row`, async (t) => {
    const rows = Array.from({ length: 20 }, (_, number) => row(format, number, `a "name"\r\n"${number}`))
    const names = format === 'csv' ? NAMES : ''
    let requests = 0
    const reader = readFrom(t, format, (url) => {
      const cursor = url.searchParams.get('cursor')
      const from = cursor === null ? 0 : Number.parseInt(parseCursor(cursor)?.id.slice(-12) ?? '', 16)
      const all = Buffer.from(names + rows.slice(from).join(''))
      requests++
      return from > 12 ? chunked([all], false) : chunked([all.subarray(0, names.length + 400)], true)
    })
    const found = await readAll(reader)
    t.equal(Buffer.concat(found.map(({ bytes }) => bytes)).toString(), names + rows.join(''))
    t.equal(
      found.reduce((sum, piece) => sum + piece.rows, 0),
      20,
    )
    t.ok(requests > 3, `${requests} requests`)
  })
}

t.test('events pending at the start of a run are read by the next one', async (t) => {
  const late = answer(200, row('ndjson', 1, 'late'), headers())
  const { reader } = await open(t, 'ndjson', [answer(200, row('ndjson', 0, 'e'), headers(1)), late])
  const found = await readAll(reader)
  t.strictSame(
    found.map(({ rows, pending, isLast }) => ({ rows, pending, isLast })),
    [
      { rows: 1, pending: 1, isLast: false },
      { rows: 1, pending: 0, isLast: true },
    ],
  )
  const none = await open(t, 'ndjson', [answer(200, '', headers(3))])
  t.match(await readAll(none.reader), [{ rows: 0, pending: 3, isLast: true }])
})

t.test('CSV gets a header only if nothing was written before', async (t) => {
  const { reader } = await open(t, 'csv', [answer(200, NAMES + row('csv', 0, 'e'), headers())], false)
  t.equal((await reader.read()).bytes.toString(), row('csv', 0, 'e'))
})

t.test("areAll compares the export with the service's count", async (t) => {
  const counted = (next: string) => answer(200, '', { ...headers(), 'x-has-more': 'true', 'x-next-cursor': next })
  const { runs, received } = await open(t, 'ndjson', [
    counted(cursorAfter(id(5))),
    counted(END),
    answer(200, '', headers()),
  ])
  t.equal(await runs.areAll(5, null, END), false)
  t.equal(await runs.areAll(5, null, END), true)
  t.equal(await runs.areAll(5, 'since', END), true)
  t.match(received, [{ method: 'HEAD', url: '/public/export?limit=5' }, {}, { url: /cursor=since/ }])
})
