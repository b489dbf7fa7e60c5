import fc from 'fast-check'
import t from 'tap'
import { fit } from '../../src/mcp/fit.js'
import { toResult } from '../../src/mcp/results.js'
import { codePoint } from '../fuzz/texts.js'

const objects = fc.dictionary(fc.string({ unit: codePoint }), fc.jsonValue({ maxDepth: 6, stringUnit: codePoint }))

/** Whether a value is another one with cut lists, members and texts. */
function isPartOf(part: unknown, whole: unknown): boolean {
  if (typeof part === 'string' && typeof whole === 'string') {
    return part === whole || (part.endsWith('…') && whole.startsWith(part.slice(0, -1)))
  }
  if (Array.isArray(part) && Array.isArray(whole)) return part.every((element, i) => isPartOf(element, whole[i]))
  if (typeof part !== 'object' || part === null) return Object.is(part, whole)
  const members = Object.entries(whole as object)
  return Object.entries(part).every(([, member], i) => isPartOf(member, members[i]?.[1]))
}

t.test('fit returns a part of the value that fits', async () => {
  fc.assert(
    fc.property(objects, fc.integer({ min: 2, max: 2000 }), (value, room) => {
      const whole = JSON.parse(JSON.stringify(value))
      const fitted = fit(whole, room)
      return (
        fitted.text.length <= room &&
        fitted.text === JSON.stringify(fitted.value) &&
        isPartOf(fitted.value, whole) &&
        fitted.note !== ''
      )
    }),
    { numRuns: 150 },
  )
})

t.test('toResult keeps a short result complete, exact and safe for clients', async () => {
  const bodies = fc.record({
    status: fc.constant(1),
    error: fc.constant(null),
    results: fc.jsonValue({ stringUnit: codePoint }),
  })
  fc.assert(
    fc.property(bodies, (body) => {
      const { content, structuredContent } = toResult(JSON.stringify(body), 'narrower')
      const json = content[1]?.type === 'text' ? content[1].text : ''
      const { results } = JSON.parse(json)
      const message = JSON.stringify(structuredContent)
      return (
        JSON.stringify(results) === JSON.stringify(body.results) &&
        !/[\p{Cc}\p{Cf}]/u.test(json) &&
        JSON.stringify(JSON.parse(message)) === message &&
        !/\\u[dD][89a-fA-F]/.test(message)
      )
    }),
    { numRuns: 150 },
  )
})

t.test('toResult keeps numbers exact, as numbers or as strings', async (t) => {
  const numbers = {
    '9007199254740993': '9007199254740993',
    '12345678901234567.5': '12345678901234567.5',
    '-0.12345678901234567891': '-0.12345678901234567891',
    '9007199254740993.0': '9007199254740993.0',
    '1e400': '1e400',
    '1e-400': '1e-400',
    '1.234567890123456789e5': '1.234567890123456789e5',
    '0.30000000000000004': 0.30000000000000004,
    '1.0000000000000000000': 1,
    '1e100': 1e100,
    '0.0000000000000000000': 0,
    '-1.50': -1.5,
  }
  for (const [text, expected] of Object.entries(numbers)) {
    const { structuredContent } = toResult(`{"status":1,"error":null,"n":${text}}`, 'narrower')
    t.same(structuredContent, { n: expected }, text)
  }
})

t.test('toResult reads a number with a million zeros in linear time', (t) => {
  const number = `1.${'0'.repeat(1_000_000)}1`
  const before = process.cpuUsage()
  const { structuredContent } = toResult(`{"status":1,"error":null,"n":${number}}`, 'narrower')
  const { user, system } = process.cpuUsage(before)
  const ms = (user + system) / 1000
  t.ok(ms < 2_000, `${ms.toFixed()} ms`)
  t.match(structuredContent, { n: /^1\.0/ })
  t.end()
})
