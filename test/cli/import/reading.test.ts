import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, crc32, deflateRawSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import type { InputFormat } from '../../../src/cli/import/formats.js'
import { openFile } from '../../../src/cli/import/input.js'
import { inspect } from '../../../src/cli/import/inspect.js'
import { OWN_NAMES, type SourceOptions } from '../../../src/cli/import/native-rows.js'
import { EVENT_FIELDS } from '../../../src/contract/schemas.js'
import { realEvents, temporaryFolder } from '../../helper.js'
import { batchesOf, eventsOf, pieces, rejectsOf, START } from './batches.js'

const DATA = fileURLToPath(new URL('../../data/', import.meta.url))
async function read(text: string | Buffer, options: Partial<SourceOptions> = {}) {
  const batches = await batchesOf(pieces(text), options)
  return { events: eventsOf(batches), rejects: rejectsOf(batches) }
}

t.test('rows that are events are sent byte for byte', async (t) => {
  const odd = [
    '{"event":"a","distinct_id":"u","properties":{ "x" : 1.0, "y":1e400,\t"z":123456789012345678901234567890 }}',
    '{"properties":{"b":1,"a":{"b":[{}, "}" ]},"a":2},"distinct_id":"u","timestamp":1700000000000,"event":"\\u0061"}',
    '{"event":"größer","distinct_id":"ü","properties":{"\\ud800":"\\/"},"eventId":"x"}',
  ]
  t.strictSame((await read(`${odd.join('\n')}\n`)).events, odd, 'NDJSON')
  t.strictSame((await read(`\ufeff\r\n${odd.join('\r\n\r\n')}`)).events, odd, 'with a mark, empty lines and CRLF')
  const pretty = odd.map((text) => text.replaceAll(',"', ',\n    "'))
  t.strictSame((await read(`[\n  ${pretty.join(',\n  ')}\n]\n`)).events, pretty, 'a pretty-printed array')
  t.strictSame((await read(`[${odd.join(',')}]`)).events, odd, 'an array on one line')
})

t.test('rows that are not events are rejected with line and reason', async (t) => {
  const good = '{"event":"a","distinct_id":"u","properties":{}}'
  const bad = ['{"event":', '[1]', '{"event":"","distinct_id":"u"}', '{"distinct_id":"u"}', `${good}${good}`]
  const { events, rejects } = await read(
    Buffer.concat([
      Buffer.from([good, ...bad, good].join('\n')),
      Buffer.from('\n{"event":"\xff","distinct_id":"u"}\n', 'latin1'),
      Buffer.from(`{"event":"a","distinct_id":"u","timestamp":-1}\n{"event":"a","distinct_id":"u","properties":[1]}`),
    ]),
    { time: 'ms' },
  )
  t.strictSame(events, [good, good])
  t.strictSame(
    rejects.map(([line]) => line),
    [2, 3, 4, 5, 6, 8, 9, 10],
  )
  const reasons = rejects.map(([, reason]) => reason)
  for (const [i, pattern] of [
    /not valid JSON/,
    /not a JSON object/,
    /^event must be/,
    /^event is required/,
    /not valid JSON/,
    /UTF-8/,
    /^timestamp must be/,
    /^properties must be an object/,
  ].entries()) {
    t.match(reasons[i], pattern)
  }
  const array = await read('[{"event":"a","distinct_id":"u","properties":{}},\n 17, "x",\n {"event":1}]')
  t.strictSame(
    array.rejects.map(([line]) => line),
    [2, 2, 3],
  )
  t.equal(array.events.length, 1)
})

t.test("rows cannot complete each other's JSON", async (t) => {
  const { events, rejects } = await read(
    '{"event":"a","distinct_id":"u","properties":{"x":[1\n2]}}\n{"event":"a","distinct_id":"u"},{"event":"b","distinct_id":"u"}\n',
  )
  t.strictSame(events, [])
  t.strictSame(
    rejects.map(([line]) => line),
    [1, 2, 3],
  )
})

t.test('a damaged array is an error that names the position', async (t) => {
  await t.rejects(read('[{"event":"a","distinct_id":"u"}'), { message: /no end/ })
  await t.rejects(read('[{"event":"a","distinct_id":"u"}\n{"event"'), { message: /Line 2 .*"\{" where , or \]/ })
  await t.rejects(read('[]]'), { message: /"\]" where the end/ })
  t.strictSame((await read('[]')).events, [])
  t.strictSame((await read('')).events, [])
})

t.test('CSV: columns by their names or by --map, cells as strings, empty ones left out', async (t) => {
  const own = await read(
    'eventId,event,distinct_id,properties,timestamp\r\nx,a,u,"{""b"": 1.0,\r\n""a"":[]}",1700000000000\r\ny,b,"u,""2""",,\r\n',
  )
  t.strictSame(own.events, [
    '{"event":"a","distinct_id":"u","timestamp":1700000000000,"properties":{"b": 1.0,\r\n"a":[]}}',
    '{"event":"b","distinct_id":"u,\\"2\\"","properties":{}}',
  ])
  const names = { event: 'name', distinct_id: 'user', timestamp: 'ts', properties: 'properties' }
  const mapped = await read('name,user,ts,plan,size\nbuy,7,1700000000.5,pro,\nbuy,8,soon,,5" disk\nshort\n"open,8\n', {
    names,
    time: 's',
  })
  t.strictSame(mapped.events, [
    '{"event":"buy","distinct_id":"7","timestamp":1700000000500,"properties":{"plan":"pro"}}',
  ])
  t.strictSame(
    mapped.rejects.map(([line]) => line),
    [3, 4, 5],
  )
  t.match(mapped.rejects[0]?.[1], /not a number of seconds/)
  t.match(mapped.rejects[1]?.[1], /1 cells, but there are 5 columns/)
  t.match(mapped.rejects[2]?.[1], /not valid CSV/)
  const endings = await read('event,distinct_id,plan\na,u,x\r\nb,v,y\n')
  t.strictSame(
    endings.events.map((text) => JSON.parse(text).properties.plan),
    ['x', 'y'],
    'line ends of both kinds',
  )
  await t.rejects(read('a,b,a\n1,2,3\n'), { message: /two columns with the name "a"/ })
  // Comparing each name with all others would take minutes.
  const many = Array.from({ length: 300_000 }, (_, i) => `c${i}`).join()
  await t.rejects(read(`${many},c7\n1\n`), { message: /two columns with the name "c7"/ })
  const wide = await read(`event,distinct_id,${many}\na,u,${'1,'.repeat(299_999)}\n`)
  t.equal(Object.keys(JSON.parse(wide.events[0] ?? '').properties).length, 299_999, 'without the empty one')
})

t.test('CSV that repeats its header is several concatenated tables', async (t) => {
  const tables = 'event,distinct_id,a\nx,u,1\n\n"event",distinct_id , a\r\nevent,u,2\nevent,event,distinct_id\n'
  const { events, rejects } = await read(tables)
  t.strictSame(events, [
    '{"event":"x","distinct_id":"u","properties":{"a":"1"}}',
    '{"event":"event","distinct_id":"u","properties":{"a":"2"}}',
    '{"event":"event","distinct_id":"event","properties":{"a":"distinct_id"}}',
  ])
  t.strictSame(rejects, [])
  const message = /^Line 3 of the CSV is another header line, in another order\. Import its tables/
  await t.rejects(read('event,distinct_id\nx,u\ndistinct_id,event\nu,x\n'), { message })
})

t.test('a time in milliseconds keeps its fraction in CSV, and one out of range is rejected', async (t) => {
  const { events, rejects } = await read(
    'event,distinct_id,timestamp\na,u,1733788800000.5\na,u, 1.7e12 \na,u,1e400\na,u,-1e400\n',
  )
  t.strictSame(
    events.map((text) => JSON.parse(text).timestamp),
    [1733788800000.5, 1700000000000],
  )
  t.strictSame(
    rejects.map(([line]) => line),
    [4, 5],
  )
  t.match(rejects[0]?.[1], /not a number of milliseconds/)
  const inSeconds = await read('event,distinct_id,timestamp\na,u,1e400\n', { time: 's' })
  t.match(inSeconds.rejects[0]?.[1], /not a number of seconds/)
})

t.test('JSON: fields by --map; without a field for them, the other fields are the properties', async (t) => {
  const names = { event: 'name', distinct_id: 'user', timestamp: 'ts', properties: 'data' }
  const { events } = await read(
    '{"name":"a","user":12345678901234567890,"ts":"2024-02-29T12:00:00+02:00","plan": 1.0,"x":[ ]}\n{"name":"a","user":"u","data":{ "k":1e5},"plan":2}\n',
    { names, time: 'iso' },
  )
  t.strictSame(events, [
    '{"event":"a","distinct_id":"12345678901234567890","timestamp":1709200800000,"properties":{"plan":1.0,"x":[ ]}}',
    '{"event":"a","distinct_id":"u","properties":{ "k":1e5}}',
  ])
  t.strictSame((await read('{"event":"a","distinct_id":"u","plan":1.0}')).events, [
    '{"event":"a","distinct_id":"u","properties":{"plan":1.0}}',
  ])
})

t.test('a row whose fields have other names keeps every field of an event', async (t) => {
  const event = {
    event: 'a',
    distinct_id: 'u',
    properties: { n: 1 },
    timestamp: 1_700_000_000_000,
    insert_id: 'i',
    session_id: 's',
    context: { browser: 'B' },
  }
  t.strictSame(Object.keys(event).sort(), [...EVENT_FIELDS].sort())
  const { event: name, ...rest } = event
  const names = { ...OWN_NAMES, event: 'name' }
  const { events } = await read(JSON.stringify({ name, ...rest }), { names })
  t.strictSame(
    events.map((text) => JSON.parse(text)),
    [event],
  )
})

for (const field of ['insert_id', 'session_id']) {
  t.test(`${field} belongs to the event, whatever the format and the names of the other fields`, async (t) => {
    const id = (name: unknown) =>
      `{"event":"a","distinct_id":"u","${field}":${JSON.stringify(name)},"properties":{"x":1}}`
    t.strictSame((await read(`${id('one')}\n`)).events, [id('one')], 'byte for byte')
    t.strictSame((await read(`event,distinct_id,${field},plan\na,u,007,pro\na,u,,free\n`)).events, [
      `{"event":"a","distinct_id":"u","${field}":"007","properties":{"plan":"pro"}}`,
      '{"event":"a","distinct_id":"u","properties":{"plan":"free"}}',
    ])
    const names = { event: 'name', distinct_id: 'user', timestamp: 'ts', properties: 'data' }
    const mapped = await read(
      `{"name":"a","user":"u","${field}":12.0,"plan":1}\n{"name":"a","user":"u","${field}":null}\n`,
      { names },
    )
    t.strictSame(mapped.events, [
      `{"event":"a","distinct_id":"u","${field}":"12.0","properties":{"plan":1}}`,
      '{"event":"a","distinct_id":"u","properties":{}}',
    ])
    const { rejects } = await read(`${id('x'.repeat(256))}\n${id('')}\n${id(true)}\n`)
    t.strictSame(
      rejects.map(([line]) => line),
      [1, 2, 3],
    )
    for (const [, reason] of rejects) t.match(reason, new RegExp(`^${field} must be a string of 1 to 255`))
  })
}

t.test('a context belongs to the event if it is one', async (t) => {
  const own = '{"event":"a","distinct_id":"u","context":{"city":"Linz"},"properties":{"x":1}}'
  t.strictSame((await read(`${own}\n`)).events, [own], 'byte for byte')
  const csv = 'event,distinct_id,properties,context\n'
  t.strictSame((await read(`${csv}a,u,"{""x"":1}","{""city"":""Linz"",""bot"":true}"\na,u,{},\n`)).events, [
    '{"context":{"city":"Linz","bot":true},"event":"a","distinct_id":"u","properties":{"x":1}}',
    '{"event":"a","distinct_id":"u","properties":{}}',
  ])
  const { rejects } = await read(`${own.replace('city', 'ip')}\n${own.replace('Linz', '')}\n`)
  t.match(rejects, [
    [1, /^context\/ip is unknown: a context has browser, /],
    [2, /^context\/city must be a string of 1 to 255/],
  ])
  t.strictSame((await read('{"event":"a","distinct_id":"u","context":{"page":"/"},"plan":1.0}')).events, [
    '{"event":"a","distinct_id":"u","properties":{"context":{"page":"/"},"plan":1.0}}',
  ])
  t.strictSame((await read('event,distinct_id,context\na,u,in a shop\n')).events, [
    '{"event":"a","distinct_id":"u","properties":{"context":"in a shop"}}',
  ])
})

t.test('the format of times is never guessed', async (t) => {
  const row = (time: string) => `{"event":"a","distinct_id":"u","timestamp":${time},"properties":{}}`
  await t.rejects(read(row('1700000000')), { message: /before 1973.*--time s.*--time ms/ })
  await t.rejects(read(row('"2024-01-01T00:00:00Z"')), { message: /--time iso/ })
  t.strictSame((await read(row('17000000'), { time: 'ms' })).events, [row('17000000')])
  t.match((await read(row('1700000000'), { time: 'ms' })).rejects, [[1, /timestamp/]])
  t.strictSame((await read(row('1700000000'), { time: 's' })).events, [row('1700000000000')])
  t.match((await read(row('"2024-01-01"'), { time: 's' })).rejects, [[1, /not a number of seconds/]])
  t.match((await read(row('1704067200'), { time: 'iso' })).rejects, [[1, /not an ISO 8601 time/]])
  t.strictSame((await read(`${row('1700000000000')}\n${row('5')}`)).events.length, 2, 'only the first one is asked')
})

t.test('compressed files are read as the text in them', async (t) => {
  const folder = await temporaryFolder(t)
  const lines = (await realEvents()).slice(0, 2000)
  const path = join(folder, 'two-members.ndjson.gz')
  const [first, second] = [lines.slice(0, 700), lines.slice(700)].map((part) => gzipSync(`${part.join('\n')}\n`))
  await writeFile(path, Buffer.concat([first ?? '', second ?? ''].map(Buffer.from)))
  t.strictSame(eventsOf(await batchesOf(await openFile(path))), lines)
  const zstd = join(DATA, 'two-frames.ndjson.zst')
  t.strictSame(eventsOf(await batchesOf(await openFile(zstd))), lines)
  t.strictSame(eventsOf(await batchesOf(pieces(await readFile(zstd), [999]))), lines, 'from a stream, too')
  const skippable = Buffer.from('502a4d180400000001020304', 'hex')
  const frames = pieces(Buffer.concat([skippable, await readFile(zstd), skippable]), [999])
  t.strictSame(eventsOf(await batchesOf(frames)), lines, 'with skippable frames')
})

/** A zip archive, as in PKWARE's APPNOTE 6.3.9. */
function zipOf(files: Record<string, Buffer>, isDeflated = false): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [name, content] of Object.entries(files)) {
    const data = isDeflated ? deflateRawSync(content) : content
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(isDeflated ? 8 : 0, 4)
    common.writeUInt32LE(crc32(content), 10)
    common.writeUInt32LE(data.length, 14)
    common.writeUInt32LE(content.length, 18)
    common.writeUInt16LE(name.length, 22)
    const place = Buffer.alloc(14)
    place.writeUInt32LE(offset, 10)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), data])
    directory.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\x00'), common, place, Buffer.from(name)]))
    parts.push(local)
    offset += local.length
  }
  const entries = Buffer.concat(directory)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(directory.length, 8)
  end.writeUInt16LE(directory.length, 10)
  end.writeUInt32LE(entries.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...parts, entries, end])
}

t.test('files of one archive are read together only if they can be one text', async (t) => {
  const path = join(await temporaryFolder(t), 'tables.zip')
  const table = (...lines: string[]) => Buffer.from(lines.join('\r\n'))
  const first = table('event,distinct_id,n', 'a,u,1')
  await writeFile(
    path,
    zipOf({ 'one.csv': first, 'empty.csv': table(''), 'two.csv': table('event,distinct_id,n', 'b,u,2') }),
  )
  t.match(
    eventsOf(await batchesOf(await openFile(path))).map((text) => JSON.parse(text)),
    [{ event: 'a' }, { event: 'b' }],
  )
  // Longer than what is inspected.
  const long = table('event,distinct_id,n', 'a,u,1\n'.repeat(200_000))
  await writeFile(path, zipOf({ 'one.csv': long, 'two.csv': table('event,price,distinct_id', 'b,9,u') }))
  const message = /tables\.zip has tables with different columns, such as one\.csv and two\.csv\. Unpack it/
  const options = { names: OWN_NAMES, time: undefined, from: undefined, format: undefined, delimiter: ',', types: {} }
  await t.rejects(inspect(await openFile(path), options), { message }, 'before anything is stored')
  const array = Buffer.from('[{"event":"a","distinct_id":"u"}]')
  await writeFile(path, zipOf({ 'one.json': array, 'two.json': array }))
  await t.rejects(inspect(await openFile(path), options), {
    message: /several files, and one\.json is a JSON array\. Unpack/,
  })
  await writeFile(path, zipOf({ 'inner.zip': zipOf({ 'one.json': array }) }))
  await t.rejects(inspect(await openFile(path), options), {
    message: /inner\.zip is a zip archive in a zip archive\. /,
  })
  await writeFile(path, zipOf({ 'one.json': array }))
  t.equal((await inspect(await openFile(path), options)).rows, 1)
})

t.test('files in a zip archive are checked by size and CRC-32', async (t) => {
  const path = join(await temporaryFolder(t), 'events.zip')
  const lines = (await realEvents()).slice(0, 100)
  const content = Buffer.from(lines.join('\n'))
  for (const isDeflated of [true, false]) {
    // Some tools write names that begin with a dot and a slash.
    const whole = zipOf({ [isDeflated ? 'events.ndjson' : './2026/events.ndjson']: content }, isDeflated)
    await writeFile(path, whole)
    t.strictSame(eventsOf(await batchesOf(await openFile(path))), lines)
    const damaged = Buffer.from(whole)
    // Changes a digit of an event in a stored file, so that only the checksum is wrong.
    const at = isDeflated ? 600 : whole.indexOf('timestamp":1') + 11
    damaged[at] = (damaged[at] ?? 0) ^ 1
    await writeFile(path, damaged)
    await t.rejects(batchesOf(await openFile(path)), { name: 'CompressedDataError', message: /events\.zip .*damaged/ })
    const resized = Buffer.from(whole)
    resized.writeUInt32LE(content.length + 1, whole.lastIndexOf('PK\x01\x02') + 24)
    await writeFile(path, resized)
    await t.rejects(batchesOf(await openFile(path)), `another size, ${isDeflated ? 'deflated' : 'stored'}`)
    await writeFile(path, whole.subarray(0, -30))
    await t.rejects(batchesOf(await openFile(path)), { message: /^The zip archive cannot be read: / })
  }
})

t.test('Brotli is detected by the file name', async (t) => {
  const path = join(await temporaryFolder(t), 'events.ndjson.br')
  const lines = (await realEvents()).slice(0, 2000)
  const whole = brotliCompressSync(lines.join('\n'))
  await writeFile(path, whole)
  t.strictSame(eventsOf(await batchesOf(await openFile(path))), lines)
  await writeFile(path, whole.subarray(0, -100))
  await t.rejects(batchesOf(await openFile(path)), { isTruncated: true, message: /ends in the middle/ })
  await writeFile(path, Buffer.concat([whole.subarray(0, 5), Buffer.alloc(100, 0xff)]))
  await t.rejects(batchesOf(await openFile(path)), { isTruncated: false, message: /damaged/ })
  // Unlike gzip and zstd, Brotli has no format for several streams in a file, but `cat` makes one.
  for (const rest of [whole, Buffer.from('more')]) {
    await writeFile(path, Buffer.concat([whole, rest]))
    await t.rejects(batchesOf(await openFile(path)), { isTruncated: false, message: /data follows its end/ })
  }
})

t.test('truncated or damaged compressed data is an error that names the input', async (t) => {
  const folder = await temporaryFolder(t)
  const zstd = await readFile(join(DATA, 'two-frames.ndjson.zst'))
  const gzip = gzipSync(`${(await realEvents()).slice(0, 2000).join('\n')}\n`)
  for (const [name, whole] of Object.entries({ 'events.gz': gzip, 'events.zst': zstd })) {
    const path = join(folder, name)
    for (const cut of [whole.subarray(0, -1), whole.subarray(0, -100), whole.subarray(0, 5)]) {
      await writeFile(path, cut)
      const error = { isTruncated: true, message: `${path} ends in the middle of its compressed data.` }
      await t.rejects(batchesOf(await openFile(path)), error, `${name}: ${cut.length} of ${whole.length} bytes`)
      await t.rejects(batchesOf(pieces(cut, [999])), { isTruncated: true, message: /^standard input ends/ })
    }
    await writeFile(path, whole.fill(0xff, 40, 60))
    await t.rejects(batchesOf(await openFile(path)), { isTruncated: false, message: /damaged/ }, name)
  }
})

t.test('batches are identical with a row that is not UTF-8, up to the last byte', async (t) => {
  const invalid = Buffer.from('{"event":"\xff","distinct_id":"u"}\n', 'latin1')
  const spaced = '{"event": "b", "distinct_id": "u", "properties": {"a": 1}}'
  const bytes = Buffer.concat([Buffer.from(`${spaced}\n`), invalid, Buffer.from(`${spaced}\n`)])
  for (const size of [1_000_000, 30, 70, 100]) {
    const batches = await batchesOf(pieces(bytes, [size]))
    t.strictSame(eventsOf(batches), [spaced, spaced], `in pieces of ${size}`)
    t.equal(rejectsOf(batches).length, 1)
  }
  const row = (bytes: number) => {
    const [start, end] = ['{"event":"a","distinct_id":"u","properties":{"a":"', '"}}']
    return `${start}${'x'.repeat(bytes - start.length - end.length)}${end}`
  }
  const first = row(50_000)
  const limit = 100_000 - '{"events":[,]}'.length - first.length
  for (const [bytes, count] of [
    [limit, 1],
    [limit + 1, 2],
  ] as const) {
    for (const size of [1_000_000, first.length + 1]) {
      const batches = await batchesOf(pieces(`${first}\n${row(bytes)}\n`, [size]))
      t.equal(batches.length, count, `a second row of ${bytes} bytes, in pieces of ${size}`)
    }
  }
})

t.test('batches do not depend on chunks, or on where reading resumes', async (t) => {
  const folder = await temporaryFolder(t)
  const value = fc.jsonValue({ maxDepth: 2 })
  const event = fc.record({
    event: fc.constantFrom('a', 'b,"\n', 'ü'),
    distinct_id: fc.string({ minLength: 1, maxLength: 5 }),
    properties: fc.dictionary(fc.string(), value),
  })
  const formats: Record<InputFormat, (rows: object[]) => string> = {
    ndjson: (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join('\n'),
    json: (rows) => JSON.stringify(rows, null, 2),
    csv: (rows) => {
      const cell = (value: unknown) =>
        `"${(typeof value === 'string' ? value : JSON.stringify(value)).replaceAll('"', '""')}"`
      return ['event,distinct_id,properties', ...rows.map((row) => Object.values(row).map(cell).join(','))].join('\n')
    },
  }
  for (const [format, write] of Object.entries(formats)) {
    const path = join(folder, format)
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof({ weight: 5, arbitrary: event }, fc.constant({ event: 1, distinct_id: '', properties: 2 })), {
          minLength: 1,
          maxLength: 12,
        }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
        async (rows, sizes) => {
          const text = write(rows)
          await writeFile(path, text)
          const whole = await batchesOf(await openFile(path), {}, START, 3)
          const good = rows.filter((row) => row.event !== 1)
          t.strictSame(
            eventsOf(whole).map((text) => JSON.parse(text)),
            good.map((row) => JSON.parse(JSON.stringify(row))),
          )
          t.equal(rejectsOf(whole).length, rows.length - good.length)
          t.strictSame(await batchesOf(pieces(text, sizes), {}, START, 3), whole)
          for (const [i, { end }] of whole.entries()) {
            const rest = await batchesOf(await openFile(path), {}, end, 3)
            t.strictSame(
              rest.map((batch) => ({ ...batch, index: batch.index + i + 1 })),
              whole.slice(i + 1),
            )
          }
        },
      ),
      { numRuns: 15 },
    )
  }
})

t.test('batches do not depend on aliases that an interrupted run has sent', async (t) => {
  const row = (n: number) => ({
    event_type: '$identify',
    user_id: `u${n % 500}`,
    device_id: `d${n % 500}`,
    time: 1733788800000,
  })
  const path = join(await temporaryFolder(t), 'amplitude.ndjson')
  await writeFile(path, Array.from({ length: 1200 }, (_, n) => `${JSON.stringify(row(n))}\n`).join(''))
  const read = async (start = START) => await batchesOf(await openFile(path), { from: 'amplitude' }, start)
  const whole = await read()
  t.ok(whole.length > 1, `${whole.length} batches`)
  for (const [i, { end }] of whole.entries()) {
    const rest = await read(end)
    t.strictSame(
      rest.map((batch) => batch.end),
      whole.slice(i + 1).map((batch) => batch.end),
    )
  }
})
