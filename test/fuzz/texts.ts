import fc from 'fast-check'

/** Names that have a meaning in some part of the service, or would in careless code. */
const MEANINGFUL = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'apiKey',
  'event',
  'distinct_id',
  'properties',
  'timestamp',
  'events',
  'status',
  'length',
  '',
  "'; DROP TABLE events; --",
  "' OR 1=1 --",
  '") FORMAT Null; SELECT 1',
  "\\'; TRUNCATE events --",
  '{project:String}',
  '../../../../etc/passwd',
  '%00',
  '%2e%2e%2f',
  'a\r\nx-injected: yes',
  '\0',
  '\u2028',
  '\ufeff',
  '\ud83d\ude00',
  '\ud800',
  'e\u0301',
  '\u202e',
  '<script>alert(1)</script>',
  '[]',
  '{}',
  'null',
  'NaN',
]

/** A character. The unit 'binary' of fast-check has the same ones, but takes 0.6 s of CPU time to make. */
export const codePoint = fc
  .oneof(fc.integer({ min: 0, max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code))

/** Free-form text, unpaired surrogates included. */
export const text = fc.oneof(
  fc.string({ unit: codePoint, maxLength: 40 }),
  fc.string({ maxLength: 40 }),
  fc.constantFrom(...MEANINGFUL),
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 10 }).map((units) => String.fromCharCode(...units)),
  fc
    .tuple(fc.constantFrom('a', 'é', '\u{1f600}'), fc.integer({ min: 250, max: 260 }))
    .map(([unit, n]) => unit.repeat(n)),
)

/** A valid name. */
export const name = text.map((given) => [...given.toWellFormed()].slice(0, 200).join('') || 'name')

/** Numbers at every edge, as JSON spells them. */
export const numberText = fc.oneof(
  fc.constantFrom(
    ...['0', '-0', '0.0', '1.0', '-1', '1e0', '1E+2', '1e-2', '1e308', '1e309', '-1e400', '5e-324', '1e-400', '0.1'],
    ...['2147483647', '2147483648', '4294967296', '9007199254740991', '9007199254740993', '9223372036854775807'],
    ...['9223372036854775808', '18446744073709551615', '18446744073709551616', '123456789012345678901234567890.10'],
    ...[
      '9999999999999',
      '9999999999999.5',
      '10000000000000',
      '253402300800000',
      '0.1000000000000000055511151231257827',
    ],
  ),
  fc.double().filter(Number.isFinite).map(String),
  fc.maxSafeInteger().map(String),
)

const space = fc.constantFrom('', '', '', ' ', '\n\t', '\r')

/** How a string is spelled: as it is, with every character escaped, or with its slashes escaped. */
export const style = fc.constantFrom('plain' as const, 'escaped' as const, 'slashes' as const)

export function spell(given: string, how: 'plain' | 'escaped' | 'slashes'): string {
  if (how === 'escaped')
    return `"${Array.from({ length: given.length }, (_, i) => unicodeEscape(given.charCodeAt(i))).join('')}"`
  const plain = JSON.stringify(given)
  return how === 'plain' ? plain : plain.replaceAll('/', '\\/')
}

function unicodeEscape(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`
}

/** The JSON text of any string. */
const stringText = fc.tuple(text, style).map(([given, how]) => spell(given, how))

/** JSON texts in many spellings: white space, escapes, duplicate names, numbers of any size. */
export const { value: jsonText, object: objectText } = fc.letrec<{ value: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false', '{}', '[]', '""'),
    numberText,
    stringText,
    fc
      .array(tie('value'), { maxLength: 4 })
      .chain((items) => space.map((gap) => `[${gap}${items.join(`${gap},`)}${gap}]`)),
    tie('object'),
  ),
  object: fc
    .array(fc.tuple(stringText, tie('value'), space), { maxLength: 5 })
    .map((members) => `{${members.map(([key, value, gap]) => `${gap}${key}${gap}:${gap}${value}`).join(',')}}`),
}))

/** Bytes that are not UTF-8. */
export const brokenBytes = fc
  .tuple(
    objectText,
    fc.constantFrom([0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x80], [0xe2, 0x82]),
    fc.nat(),
  )
  .map(([given, bytes, at]) => {
    const whole = Buffer.from(given)
    const cut = at % (whole.length + 1)
    return Buffer.concat([whole.subarray(0, cut), Buffer.from(bytes), whole.subarray(cut)])
  })
