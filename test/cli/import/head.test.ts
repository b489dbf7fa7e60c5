import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { command } from '../../../src/cli/import/command.js'
import { temporaryFolder } from '../../helper.js'

interface Ended {
  code: number
  stdout: string
  stderr: string
}

t.test('the head of an input', async (t) => {
  const KEY_FILE = join(await temporaryFolder(t), 'key')
  await writeFile(KEY_FILE, 'sk_key')

  /** Runs the command with an unreachable service, so any call is an error. */
  async function run(args: string[], stdin: string | Buffer = ''): Promise<Ended> {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()]
    const io = {
      env: {},
      stdin: Readable.from([Buffer.from(stdin)]),
      stdout,
      stderr,
      signal: new AbortController().signal,
    }
    const key = ['--url', 'http://127.0.0.1:1', '--key-file', KEY_FILE]
    let code = -1
    let message = ''
    try {
      code = await command.run([...(args.includes('--dry-run') ? [] : key), ...args], io)
    } catch (error) {
      code = 1
      message = (error as Error).message
    }
    const textOf = (stream: PassThrough) => stream.read()?.toString() ?? ''
    return { code, stdout: textOf(stdout), stderr: `${textOf(stderr)}${message}` }
  }

  const utf16 = (text: string) => Buffer.from(text, 'utf16le')
  const good = '{"event":"a","distinct_id":"u","timestamp":1700000000000}\n'

  /** The first file in the archive of an Office document. */
  const contentTypes = (type: string) =>
    `<?xml version="1.0"?>\n<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override ContentType="application/vnd.openxmlformats-officedocument.${type}.main+xml"/></Types>\n`

  /** Impossible inputs, with options and the expected message. */
  const FAULTS: Record<string, [content: string | Buffer, reason: RegExp, ...args: string[]]> = {
    'a web page': ['<!DOCTYPE html><html><body>Sign in</body></html>', /HTML or XML.*begins with "<!DOCTYPE html>/],
    XML: ['<?xml version="1.0"?><events/>', /HTML or XML/],
    prose: ['Dear all,\nplease find the events below.\n', /begins with|no column|one column/],
    'one word': ['hello', /only one column.*"hello"/],
    Parquet: [Buffer.from('PAR1\x15\x04\x15'), /Parquet/],
    'a file in an Excel workbook': [
      contentTypes('spreadsheetml.sheet'),
      /is an Excel workbook\. Save its sheet as CSV/,
    ],
    'a file in a Word document': [contentTypes('wordprocessingml.document'), /is a Word document\.$/],
    'a spreadsheet of LibreOffice': ['application/vnd.oasis.opendocument.spreadsheet\n', /is an OpenDocument file/],
    'a tar archive': [
      Buffer.concat([Buffer.from('events.ndjson'.padEnd(257, '\0')), Buffer.from('ustar\0')]),
      /is a tar/,
    ],
    'other bytes': [Buffer.from([1, 2, 0, 3, 10, 0, 255]), /not text/],
    'one column, semicolons': [
      'event;distinct_id;plan\na;u;pro\n',
      /only one column: --delimiter ';' would give 3.*"event;/,
    ],
    'one column, tabs': ['event\tdistinct_id\na\tu\n', /--delimiter tab would give 2/],
    'one column, bars': ['event|distinct_id\na|u\n', /--delimiter '\|' would give 2/],
    'one column, commas': ['event,distinct_id\na,u\n', /--delimiter ',' would give 2/, '--delimiter', ';'],
    'CR alone, CSV': ['event,distinct_id\ra,u\rb,v\r', /carriage return alone.*tr /],
    'CR alone, NDJSON': [good.replace('\n', '\r').repeat(3), /carriage return alone/],
    'a mapped column that is not there': [
      'event,distinct_id,ts\na,u,1700000000000\n',
      /no column "time", which --map names\. Its columns are "event", "distinct_id", "ts"/,
      ...['--map', 'timestamp=time'],
    ],
    'a mapped field that is not there': [good, /has the field "when", which --map names/, '--map', 'timestamp=when'],
    'a mapped field that is not there, in an array': [`[${good}]`, /has the field "when"/, '--map', 'timestamp=when'],
    'a typed column that is not there': [
      'event,distinct_id\na,u\n',
      /no column "price", which --types/,
      '--types',
      'price=number',
    ],
    'no column of the user': ['event,user\na,u\n', /no column "distinct_id".*--map distinct_id=COLUMN/],
    'no column of the event': ['name,distinct_id\na,u\n', /no column "event".*--map event=COLUMN.*--event NAME/],
    'Latin-1 names': [Buffer.from('event,distinct_id,größe\na,u,1\n', 'latin1'), /windows-1252.*iconv -f WINDOWS-1252/],
    'Latin-1 rows': [Buffer.from(`event,distinct_id,city\n${'a,u,München\n'.repeat(5)}`, 'latin1'), /iconv -f/],
    'Latin-1 NDJSON': [Buffer.from('{"event":"größer","distinct_id":"u"}\n'.repeat(3), 'latin1'), /iconv -f/],
    'Latin-1 array': [
      Buffer.from('[{"event":"größer","distinct_id":"u"},{"event":"größer","distinct_id":"u"}]', 'latin1'),
      /iconv -f/,
    ],
    'UTF-16 with a mark': [utf16(`\ufeff${'event,distinct_id\na,u\n'}`), /UTF-16LE.*iconv -f UTF-16LE/],
    'UTF-16 without a mark': [utf16(good), /UTF-16LE/],
    'UTF-16BE': [utf16(`\ufeff${good}`).swap16(), /UTF-16BE/],
    'no events, NDJSON': [
      '{"type":"x"}\n{"type":"y"}\n',
      /None of the 2 rows.*Line 1: event is required.*\{\\"type\\":\\"x\\"\}/,
    ],
    'no events, array': ['[{"type":"x"},{"type":"y"}]', /None of the 2 rows/],
    'no events, CSV': ['event,distinct_id\n,u\n,v\n', /None of the 2 rows/],
    'one object of many lines': ['{\n  "events": []\n}\n', /None of the|not valid JSON|no event/],
    'an array that is damaged from the start': ['[1 2]', /\S/],
    'times that cannot be read': [
      'event,distinct_id,timestamp\na,u,yesterday\nb,v,soon\n',
      /The first timestamp of the input is "yesterday", which is neither a number nor ISO 8601.*--map timestamp/,
    ],
    'a time that is empty': ['{"event":"a","distinct_id":"u","timestamp":""}\n', /"", which is neither a number nor/],
    'a line that names the delimiter': [
      'sep=;\nevent;distinct_id\na;u\n',
      /only one column: remove its first line, which only names the delimiter/,
      ...['--delimiter', ';'],
    ],
    "another product's export": [
      '{"type":"track","event":"a","userId":"u","properties":{},"timestamp":"2024-01-01T00:00:00Z"}\n',
      /is not an event.* has no distinct_id, unlike events of PostHog/,
      ...['--from', 'posthog'],
    ],
    "another product's table with another delimiter": [
      'session_id;url_path;created_at\nv;/;2024-01-02 03:04:05\n',
      /only one column: --delimiter ';' would give 3/,
      ...['--from', 'umami'],
    ],
    'an empty answer of Matomo': ['\n', /is empty.*Matomo answers with \[\]/, '--from', 'matomo'],
    'times that Excel has shortened': [
      'event,distinct_id,timestamp\na,u,1.70E+12\n',
      /1\.70E\+12 is in scientific notation/,
    ],
    "times of another product's table that Excel has shortened": [
      'session_id,url_path,created_at\nv,/,1.70E+12\n',
      /1\.70E\+12 is in scientific notation/,
      ...['--from', 'umami'],
    ],
  }

  const ZIP_NAME = 'events.txt'
  function zipOf(content: Buffer): Buffer {
    const { crc32 } = process.getBuiltinModule('node:zlib')
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt32LE(crc32(content), 10)
    common.writeUInt32LE(content.length, 14)
    common.writeUInt32LE(content.length, 18)
    common.writeUInt16LE(ZIP_NAME.length, 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(ZIP_NAME)])
    const entry = Buffer.concat([Buffer.from('PK\x01\x02\x14\x00'), common, Buffer.alloc(14), Buffer.from(ZIP_NAME)])
    const end = Buffer.alloc(22)
    end.write('PK\x05\x06', 'latin1')
    end.writeUInt16LE(1, 8)
    end.writeUInt16LE(1, 10)
    end.writeUInt32LE(entry.length, 12)
    end.writeUInt32LE(local.length + content.length, 16)
    return Buffer.concat([local, content, entry, end])
  }

  for (const [i, [name, [content, reason, ...args]]] of Object.entries(FAULTS).entries()) {
    t.test(`stops before anything is sent: ${name}`, async (t) => {
      const folder = await temporaryFolder(t)
      const bytes = Buffer.from(content)
      // What is found in a text does not depend on how it was compressed.
      const compressed = {
        'events.gz': gzipSync(bytes),
        'events.br': brotliCompressSync(bytes),
        'events.zip': zipOf(bytes),
      }
      const files: Record<string, Buffer> = { 'events.txt': bytes, ...(i % 5 === 0 && compressed) }
      const check = (found: Ended, where: string) => {
        t.equal(found.code, 1, where)
        t.match(found.stderr, reason, where)
        t.ok(found.stderr.length < 2500, 'quoted text is limited')
        t.notMatch(found.stderr, /cannot be reached/)
      }
      for (const [file, bytes] of Object.entries(files)) {
        const path = join(folder, file)
        await writeFile(path, bytes)
        check(await run([...args, path]), file)
      }
      check(await run(['--dry-run', ...args, join(folder, 'events.txt')]), 'dry run')
      check(await run([...args, '-'], bytes), 'standard input')
      t.strictSame((await readdir(folder)).sort(), Object.keys(files).sort(), 'no state is written')
    })
  }

  t.test('a valid head is accepted', async (t) => {
    const right: Record<string, string | Buffer> = {
      'a line': good.trimEnd(),
      'a line that ends with CR': good.replace('\n', '\r'),
      'a mark': `\ufeff${good}`,
      'an array of one line': `[${good.trim()}]`,
      'an array with CR': `[\r${good.trim()}\r,${good.trim()}\r]`,
      nothing: '',
      'an empty array': '[]',
      'a header alone': 'event,distinct_id\n',
      'one bad row of many': `${good.repeat(3)}{"event":1}\n`,
      'one row that is not UTF-8': Buffer.concat([
        Buffer.from(good.repeat(3)),
        Buffer.from('{"event":"ü"}\n', 'latin1'),
      ]),
      'CRLF and empty columns': 'event,distinct_id,,\r\na,u,,\r\n',
      'a less-than sign in text': 'event,distinct_id,x\na,u,<b>\n',
    }
    for (const [name, content] of Object.entries(right)) {
      const { stderr } = await run(['-'], content)
      t.match(stderr, /cannot be reached/, `${name}: ${stderr}`)
    }
  })

  t.test('--dry-run shows what would be stored, the types and what is left out', async (t) => {
    const table = `event,distinct_id,ts,price,zip,paid,on,note
buy,u1,2024-01-02 03:04:05 UTC,9.50,01234,true,2024-01-02,
buy,u2,2024-01-02 03:04:05.25 UTC,10,98765,FALSE,2024-01-03,x
,u3,2024-01-02 03:04:06 UTC,1,1,true,2024-01-03,x
buy,u4,2024-01-02 03:04:07 UTC,1,1,true,2024-01-03,x
buy,u5,soon,1,1,true,2024-01-03,x
`
    const { code, stdout } = await run(['--dry-run', '--map', 'timestamp=ts', '-'], table)
    t.equal(code, 1)
    t.match(stdout, /standard input is CSV with 8 columns/)
    t.match(stdout, /Times \(ts\): ISO 8601, in UTC/)
    t.match(stdout, /price is numbers; paid is booleans; on is dates; all others are text/)
    t.match(stdout, /Of the 5 rows, 2 would be rejected/)
    const single = await run(['--dry-run', '-'], '{"event":"buy","distinct_id":"u1"}\n')
    t.match(single.stdout, /Of the 1 row, 0 would be rejected\.\nThe first event, as stored:/)
    t.match(stdout, /line 4: event is required/)
    t.match(stdout, /line 6: The timestamp "soon"/)
    t.match(
      stdout,
      [
        '{"event":"buy","distinct_id":"u1","timestamp":1704164645000,"properties":{"price":9.50,"zip":"01234","paid":true,"on":"2024-01-02"}}',
        '{"event":"buy","distinct_id":"u2","timestamp":1704164645250,"properties":{"price":10,"zip":"98765","paid":false,"on":"2024-01-03","note":"x"}}',
        '{"event":"buy","distinct_id":"u4","timestamp":1704164647000,"properties":{"price":1,"zip":"1","paid":true,"on":"2024-01-03","note":"x"}}\n',
      ].join('\n'),
    )
    const own = await run(['--dry-run', '-'], 'event,distinct_id,properties,extra\na,u,"{""b"": 1.0}",7\n')
    t.equal(own.code, 0)
    t.match(own.stdout, /Left out, because the column "properties" has the properties: extra/)
    t.match(own.stdout, '{"event":"a","distinct_id":"u","properties":{"b": 1.0}}')
    const exported = '{"eventId":"1","event":"a","distinct_id":"u","properties":{},"timestamp":1700000000000}'
    t.notMatch((await run(['--dry-run', '-'], `${exported}\n`)).stdout, /Left out/)
    const others = exported.replace('"1"', '"1","uuid":"2","n":3')
    t.match(
      (await run(['--dry-run', '-'], `[${exported},${others}]`)).stdout,
      /Left out, because the field "properties" has the properties: uuid, n\.\n/,
    )
    t.equal((await run(['--dry-run', '-'], good)).stdout.includes(good), true)
    t.notMatch((await run(['--dry-run', '-'], good)).stdout, /time of arrival/)
    for (const untimed of [
      '{"event":"a","distinct_id":"u","time":1}\n',
      '[{"event":"a","distinct_id":"u","properties":{}}]',
      'event,distinct_id,timestamp\na,u,\n',
    ]) {
      t.match(
        (await run(['--dry-run', '-'], untimed)).stdout,
        /no times in "timestamp", so the events get their time of/,
      )
    }
  })

  t.test('times in a Mixpanel export may be in the zone of its project', async (t) => {
    const row =
      '{"event":"a","properties":{"time":1602611311,"mp_processing_time_ms":1602625711874,"distinct_id":"u"}}\n'
    const stored = async (...args: string[]) =>
      (await run(['--dry-run', '--from', 'mixpanel', ...args, '-'], row)).stdout
    t.match(await stored(), /in UTC\. A Mixpanel project from before 2023 .*--time-zone.*"timestamp":1602611311000,/s)
    t.match(await stored('--time-zone', 'America/New_York'), /in America\/New_York.*"timestamp":1602625711000,/s)
    t.match(await run(['--from', 'ga4', '--time-zone', 'UTC', '-'], row), { code: 1, stderr: /leave --time-zone out/ })
  })

  t.test('exports of web analytics without visits or visitors are noted once', async (t) => {
    const at = '2024-03-01 00:00:00'
    const inputs = {
      umami: ['session_id,url_path,created_at,visit_id', 's1,/a,AT,v1', 's2,/b,AT,v2'],
      plausible: ['user_id,name,timestamp,session_id', '1,pageview,AT,7', '2,pageview,AT,8'],
    } as const
    const shown = async (from: string, lines: readonly string[]) => {
      const { code, stdout } = await run(
        ['--dry-run', '--from', from, '-'],
        `${lines.join('\n').replaceAll('AT', at)}\n`,
      )
      t.equal(code, 0)
      return stdout.match(/No event has .*/g)
    }
    for (const [from, lines] of Object.entries(inputs)) {
      t.equal(await shown(from, lines), null)
      const without = lines.map((line) => line.slice(0, line.lastIndexOf(',')))
      t.match(await shown(from, without), [/^No event has a session_id: there is no (visit|session)_id\. .* by gap/])
      t.equal((await shown(from, without))?.length, 1)
    }
    const parameters = [{ key: 'ga_session_id', value: { int_value: 7 } }]
    const row = { event_name: 'page_view', event_timestamp: '1709251200000000', event_params: parameters }
    t.equal(await shown('ga4', [JSON.stringify({ ...row, user_pseudo_id: '1.2' })]), null)
    const anonymous = await shown('ga4', [JSON.stringify(row)])
    t.match(anonymous, [/^No event has a visitor: there is no user_pseudo_id or user_id/, /^No event has a session_id/])
  })

  t.test('the grammar of numbers of skipped rows', async (t) => {
    const last = async (rows: number) => {
      const table = `event,distinct_id,x\na,u,1\n${',,\n'.repeat(rows)}`
      return (await run(['--dry-run', '-'], table)).stdout
    }
    t.match(await last(1), 'Of the 2 rows, 0 would be rejected, 1 would be skipped because it is not an event.')
    t.match(await last(2), 'Of the 3 rows, 0 would be rejected, 2 would be skipped because they are not events.')
  })

  t.test('a stream that pauses is inspected as far as it has arrived', async (t) => {
    const stdin = new PassThrough()
    const stderr = new PassThrough()
    const signal = new AbortController().signal
    const ended = command.run(['--url', 'http://127.0.0.1:1', '--key-file', KEY_FILE, '-'], {
      ...{ env: {}, stdin, stdout: new PassThrough(), stderr, signal },
    })
    stdin.write('<html>\n\n')
    // Unlike a terminal, the stream does not keep the process alive.
    const alive = setInterval(() => undefined, 1000)
    t.teardown(() => clearInterval(alive))
    await t.rejects(ended, /HTML/)
  })

  t.test('the first impossible file in a folder stops the import', async (t) => {
    const folder = join(await temporaryFolder(t), 'all')
    await mkdir(folder)
    await writeFile(join(folder, 'a.csv'), 'event;distinct_id\na;u\n')
    t.match(await run([folder]), { code: 1, stderr: /only one column/ })
  })
})
