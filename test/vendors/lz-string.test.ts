import { createHash } from 'node:crypto'
import fc from 'fast-check'
import lzString from 'lz-string'
import t from 'tap'
import { decompressLzString } from '../../src/vendors/lz-string.js'
import { SdkBodyError, SdkBodyTooLargeError, unwrapSdkBody } from '../../src/vendors/sdk-body.js'
import { codePoint } from '../fuzz/texts.js'

const { compressToBase64, decompressFromBase64 } = lzString
const LIMIT = 20_000
/** of a bomb: the package takes quadratic time to make one */
const BOMB = 400_000
const nothing = () => undefined
const form = (base64: string) => Buffer.from(`data=${encodeURIComponent(base64)}&compression=lz64`)

function decompress(base64: string, maxUnits = 5_000_000): string {
  const decoding = decompressLzString(Buffer.from(base64), maxUnits, nothing)
  for (;;) {
    const step = decoding.next()
    if (step.done) return step.value
  }
}

/** Texts with repetitions, as JSON has, and with all kinds of code units. */
const texts = fc
  .array(
    fc.oneof(
      fc.string({ unit: codePoint, maxLength: 20 }),
      fc.json(),
      fc.constantFrom('"properties":{', 'aaaa', '\u0000', '\ud800', '漢', '😀'),
    ),
    { maxLength: 60 },
  )
  .map((parts) => [...parts, ...parts.slice(0, 7), ...parts].join(''))

t.test('decompressLzString restores what lz-string compressed', async (t) => {
  fc.assert(
    fc.property(texts, (text) => decompress(compressToBase64(text)) === text),
    { numRuns: 100 },
  )
  const words = Array.from({ length: 30_000 }, (_, i) => createHash('md5').update(String(i)).digest('base64'))
  const long = words.join('') + 'x'.repeat(20_000)
  t.ok(decompress(compressToBase64(long)) === long, 'a long one, in turns')
})

t.test('decompressLzString reads or refuses any other text like lz-string', async () => {
  const digits = fc.string({
    unit: fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'),
    minLength: 1,
    maxLength: 80,
  })
  fc.assert(
    fc.property(digits, (base64) => {
      let own: string | null
      try {
        own = decompress(base64)
      } catch {
        own = null
      }
      // The package accepts several endings of the text, so only what both read is compared.
      return own === null || own === decompressFromBase64(`${base64}AAAA`) || own === decompressFromBase64(base64)
    }),
    { numRuns: 100 },
  )
})

t.test('unwrapSdkBody decompresses a request that declares lz-string', async (t) => {
  const text = '{"api_key":"k","batch":[{"event":"é漢😀 ~?>+/ 100%","n":1.0}]}'
  const base64 = compressToBase64(text)
  const unwrap = async (body: Buffer | string, query = '') => {
    const { json, fields } = await unwrapSdkBody(Buffer.from(body), query, LIMIT, nothing)
    return [json.toString(), Object.fromEntries(fields)]
  }
  t.strictSame(await unwrap(form(base64)), [text, { compression: 'lz64' }], 'as posthog-js-lite 3.0 does')
  t.strictSame(await unwrap(`data=${base64}`, 'compression=lz64&ip=1'), [text, { compression: 'lz64', ip: '1' }])
  t.strictSame(await unwrap(base64, 'compression=lz64'), [text, { compression: 'lz64' }], 'not in a form')
  t.strictSame(await unwrap('', `compression=lz64&data=${encodeURIComponent(base64)}`), [text, { compression: 'lz64' }])
  const plain = Buffer.from(text).toString('base64')
  for (const uncompressed of [text, plain]) {
    t.equal((await unwrap(form(uncompressed)))[0], text, 'although nothing compressed it')
  }
  for (const bad of [
    base64.slice(0, 40),
    'AAAA',
    '!',
    compressToBase64('hello'),
    compressToBase64('{"a":"\ud800"}'),
    compressToBase64(''),
  ]) {
    await t.rejects(unwrap(form(bad)), SdkBodyError, bad)
  }
})

t.test('decompressLzString stops a bomb at the limit, or when its caller throws', async (t) => {
  const bomb = form(compressToBase64(`{"a":"${'a'.repeat(BOMB)}"}`))
  t.ok(bomb.length < LIMIT / 10, `${bomb.length} bytes`)
  let taken = 0
  const count = (bytes: number) => {
    taken += bytes
  }
  await t.rejects(unwrapSdkBody(bomb, '', LIMIT, count), SdkBodyTooLargeError)
  t.ok(taken > LIMIT && taken <= 2 * LIMIT, `${taken} bytes, of two for each code unit`)
  const refused = new Error('no room')
  const refuse = () => {
    throw refused
  }
  await t.rejects(unwrapSdkBody(bomb, '', BOMB * 2, refuse), refused)
  const wide = form(compressToBase64(JSON.stringify('漢'.repeat(LIMIT / 2)).replace(/.*/, '{"a":$&}')))
  await t.rejects(unwrapSdkBody(wide, '', LIMIT, nothing), SdkBodyTooLargeError, 'bytes count, not characters')
})
