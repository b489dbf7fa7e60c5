import { gzipSync } from 'node:zlib'
import t from 'tap'
import { SdkBodyError, SdkBodyTooLargeError, unwrapSdkBody } from '../../src/vendors/sdk-body.js'
import { readCapture } from './replay.js'

const LIMIT = 1_000_000
const CAPTURES =
  'amplitude-browser amplitude-node cors minimum mixpanel mixpanel-browser mixpanel-unload openpanel-sdk openpanel-web posthog-js posthog-node rudder-browser rudder-node segment-browser segment-node'

async function unwrap(body: Buffer | string, query = '') {
  const { json, fields } = await unwrapSdkBody(Buffer.from(body), query, LIMIT, () => undefined)
  return [json.toString(), Object.fromEntries(fields)]
}

/** As `encodeURIComponent`, but of the bytes that a browser's `escape` makes of each half of a pair. */
function cesu8(text: string): Buffer {
  const unit = (code: number) =>
    code < 0x80
      ? [code]
      : code < 0x800
        ? [0xc0 | (code >> 6), 0x80 | (code & 0x3f)]
        : [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)]
  return Buffer.from([...Array(text.length).keys()].flatMap((i) => unit(text.charCodeAt(i))))
}

t.test('every request that was captured', async (t) => {
  let count = 0
  for (const name of CAPTURES.split(' ')) {
    for (const { body, query, headers, unwrapped, path } of readCapture(name)) {
      if (body.length === 0 && !query.includes('data=')) continue
      // Without its Content-Encoding, which is gzip wherever there is one, the bytes say what it is.
      const [json] = await unwrap(body, query.slice(1))
      // The recorder could not read CESU-8.
      const wanted = JSON.parse(unwrapped.replaceAll('\uFFFD'.repeat(6), '😀'))
      t.strictSame(JSON.parse(String(json)), wanted, `${name} ${path} ${headers['content-type']}`)
      count++
    }
  }
  t.ok(count > 400, `${count} requests`)
})

t.test('JSON, forms and base64, in whatever they are wrapped', async (t) => {
  const text = '{"a": "é漢😀 100% ~?>", "n":1.0}'
  const base64 = Buffer.from(text).toString('base64')
  t.match(base64, /[+/]/, 'the base64 has characters that a form reads otherwise')
  const percent = encodeURIComponent(text)
  for (const body of [
    text,
    ` \n${text}`,
    base64,
    `${base64}\n`,
    `data=${base64}`,
    `data=${encodeURIComponent(base64)}`,
  ]) {
    t.strictSame((await unwrap(body))[0]?.toString().trim(), text, body)
    t.strictSame((await unwrap(gzipSync(body)))[0]?.toString().trim(), text, `gzip of ${body}`)
  }
  t.strictSame(await unwrap(`data=${base64.replaceAll('+', ' ')}`), [text, {}], 'spaces that were a plus')
  t.strictSame(await unwrap(base64.replace(/.{20}/g, '$&\r\n')), [text, {}], 'in lines')
  t.strictSame(await unwrap(Buffer.from(text).toString('base64url')), [text, {}])
  t.strictSame(await unwrap(`data=${percent}&verbose=1`), [text, { verbose: '1' }])
  t.strictSame(await unwrap(`verbose=1&data=${percent}`), [text, { verbose: '1' }], 'the JSON need not come first')
  t.strictSame(await unwrap(`client=K&e=${percent}&v=2`), [text, { client: 'K', v: '2' }])
  t.strictSame(await unwrap('data={"a":"b+c"}'), ['{"a":"b c"}', {}])
  t.strictSame(await unwrap('', `ip=0&data=${base64}`), [text, { ip: '0' }], 'a GET')
  t.strictSame(await unwrap(''), ['', {}])
})

t.test('the fields of the query and of the form', async (t) => {
  t.strictSame(await unwrap('data={}&ip=2', 'verbose=1&ip=1&_=5'), ['{}', { verbose: '1', ip: '2', _: '5' }])
  t.strictSame(await unwrap('{"a":1}', 'data=e30=&verbose=1'), ['{"a":1}', { verbose: '1' }], 'the body is the JSON')
  t.strictSame(await unwrap('{}', 'a=%zz&b=100%&c=%41+d'), ['{}', { a: '%zz', b: '100%', c: 'A d' }], 'not a fault')
  t.strictSame(await unwrap('{}', 'data=%%%&e=!'), ['{}', {}], 'not looked at')
})

t.test('CESU-8 becomes UTF-8, other bytes are refused', async (t) => {
  const text = '{"a":"é漢😀😀 x"}'
  t.strictSame(await unwrap(cesu8(text)), [text, {}])
  t.strictSame(await unwrap(`data=${encodeURIComponent(cesu8(text).toString('base64'))}`), [text, {}])
  for (const bytes of ['eda0bd', 'edb880', 'edb880eda0bd', 'ff', 'c328', 'eda0bdedb8']) {
    const body = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes, 'hex'), Buffer.from('"}')])
    await t.rejects(unwrap(body), { name: 'SdkBodyError', message: /not valid UTF-8/ }, bytes)
  }
})

t.test('what no SDK writes', async (t) => {
  for (const body of ['hello', '"text"', 'true', '12', 'data=hello', 'data=', Buffer.from([0x1f, 0x8b, 8, 0, 1])]) {
    await t.rejects(unwrap(body), SdkBodyError, String(body))
  }
  const cut = gzipSync('{"a":1}').subarray(0, -4)
  await t.rejects(unwrap(cut), { name: 'SdkBodyError', message: /cannot be decompressed/ })
})

t.test('hostile bodies take no longer than their length', async (t) => {
  const spaces = ' '.repeat(200_000)
  const bodies: [body: string, message: RegExp][] = [
    [`a${spaces}!`, /neither JSON nor base64/],
    [`data=a${spaces}!`, /neither JSON nor base64/],
    [`a=${spaces}!`, /neither JSON nor base64/],
    [`${'a=&'.repeat(60_000)}data={}`, /too many fields/],
  ]
  for (const [body, message] of bodies) {
    const before = process.cpuUsage()
    await t.rejects(unwrap(body), { name: 'SdkBodyError', message }, body.slice(0, 10))
    const { user, system } = process.cpuUsage(before)
    const ms = (user + system) / 1000
    t.ok(ms < 2_000, `${ms.toFixed()} ms`)
  }
})

t.test('a bomb ends at the limit, and at what its receiver says', async (t) => {
  const bomb = gzipSync(Buffer.alloc(50 * LIMIT, ' '))
  let taken = 0
  const count = (bytes: number) => {
    taken += bytes
  }
  await t.rejects(unwrapSdkBody(bomb, '', LIMIT, count), SdkBodyTooLargeError)
  t.ok(taken > 0 && taken <= LIMIT, `${taken} bytes were inflated`)
  const refused = new Error('no room')
  const refuse = () => {
    throw refused
  }
  await t.rejects(unwrapSdkBody(bomb, '', 100 * LIMIT, refuse), refused)
})
