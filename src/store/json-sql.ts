/**
 * SQL for values in JSON documents. A *token* is a value as ClickHouse writes it (JSONExtractRaw). Equal values have
 * equal tokens: `1`, `1.0` and `1e0` are all `1`, and a string has one spelling. The empty token is an unset value;
 * null counts as unset, too.
 */

/**
 * ClickHouse's parser (simdjson) rejects a whole document because of an unpaired surrogate, an integer beyond 64 bits
 * or a number beyond doubles, and events may contain all of these. Its other parser (`allow_simdjson=0`) also rejects
 * the first and the last, and reads numbers less precisely. So such documents are repaired. Marks replace values that
 * cannot be spelled otherwise: LONE and four digits for an unpaired surrogate, and a string of INFINITE and the number.
 * The marks are the last private-use characters of plane 16.
 */
const PAIR = '\u{10fffb}'
const LONE = '\u{10fffc}'
const INFINITE = '\u{10fffd}'

/** SQL that is 0, or fails the query if a text needs repair. Everything read from the text must depend on it. */
export function failIf(needsRepair: string): string {
  return `throwIf(${needsRepair}, 'a text has to be repaired')`
}

/** Matches a string, a number, or the text between them. */
const PARTS = String.raw`"(?:[^"\\\\]|\\\\.)*"|-?[0-9][-+0-9.eE]*|[^"0-9-]+`
const HIGH = '[dD][89abAB][0-9a-fA-F]{2}'
const LOW = '[dD][c-fC-F][0-9a-fA-F]{2}'

/** Repairs a JSON document that simdjson rejects. */
export function repairText(text: string): string {
  // Escaped backslashes become \u005c, so that every remaining backslash begins an escape.
  const plain = String.raw`replaceAll(part, '\\\\', '\\u005c')`
  const pairs = String.raw`replaceRegexpAll(${plain}, '\\\\u(${HIGH})\\\\u(${LOW})', '${PAIR}\\1\\2')`
  const lone = String.raw`replaceRegexpAll(${pairs}, '\\\\u([dD][89a-fA-F][0-9a-fA-F]{2})', '${LONE}\\1')`
  const string = String.raw`replaceRegexpAll(${lone}, '${PAIR}(.{4})(.{4})', '\\\\u\\1\\\\u\\2')`
  const lowered = splitAtLone(
    string,
    (rest) => `concat('${LONE}', lower(substring(${rest}, 1, 4)), substring(${rest}, 5))`,
  )
  const infinite = `concat('"${INFINITE}', if(startsWith(part, '-'), '-', ''), '1e400"')`
  const double = `concat(toString(toFloat64(part)), if(match(toString(toFloat64(part)), '[.e]'), '', '.0'))`
  const number = `if(isInfinite(toFloat64(part)), ${infinite}, ${double})`
  // Integers of this length are exact.
  const isPlain = `length(part) < 19 AND NOT match(part, '[eE]')`
  const repairedPart = `multiIf(startsWith(part, '"'), ${lowered}, NOT match(part, '^[-0-9]'), part, ${isPlain}, part, ${number})`
  return `arrayStringConcat(arrayMap(part -> ${repairedPart}, extractAll(${text}, '${PARTS}')))`
}

/**
 * Turns a token of a repaired text into an ordinary one: unpaired surrogates as escapes, infinite numbers as `1e400`.
 */
export function unmarkToken(token: string): string {
  // After a backslash, the quotation mark is within a text.
  return String.raw`replaceRegexpAll(${unmarkHalves(token)}, '(^|[^\\\\])"${INFINITE}(-?1e400)"', '\\1\\2')`
}

/** Turns the unpaired surrogates in a token of a repaired text into escapes. */
export function unmarkHalves(token: string): string {
  // Without such digits, the mark is a character that the event itself contains.
  return String.raw`replaceRegexpAll(${token}, '${LONE}(d[89a-f][0-9a-f]{2})', '\\\\u\\1')`
}

/** Splits at LONE: keeps the first part, and passes the others, which begin with four digits, through `join`. */
function splitAtLone(text: string, join: (rest: string) => string): string {
  const rest = `arrayStringConcat(arrayMap(piece -> ${join('piece')}, arraySlice(pieces, 2)))`
  return `arrayMap(pieces -> concat(pieces[1], ${rest}), [splitByString('${LONE}', ${text})])[1]`
}

/** The form of a name to search for in an object: an unpaired surrogate only exists in repaired texts. */
export function markName(name: string): string {
  return name.isWellFormed()
    ? name
    : name.replace(LONE_SURROGATE, (half) => `${LONE}${half.charCodeAt(0).toString(16)}`)
}

/** The original form of a name from a repaired text. */
export function unmarkName(name: string): string {
  return name.replaceAll(MARKED_HALF, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
}

const MARKED_HALF = new RegExp(`${LONE}(d[89a-f][\\da-f]{2})`, 'gu')
const LONE_SURROGATE = /\p{Surrogate}/gu

/**
 * The string of a token; an unpaired surrogate becomes the three bytes that UTF-8 would have for it.
 * @param mayBeRepaired whether the token may be from a repaired text: only repaired texts contain unpaired surrogates
 */
export function decodeText(token: string, mayBeRepaired: boolean): string {
  const decoded = `JSONExtractString(${token})`
  const bare = `substring(${token}, 2, length(${token}) - 2)`
  const isEscaped = String.raw`position(${token}, '\\') > 0`
  if (!mayBeRepaired) return `if(${isEscaped}, ${decoded}, ${bare})`
  const plain = String.raw`replaceAll(${token}, '\\\\', '\\u005c')`
  const marked = String.raw`replaceRegexpAll(${plain}, '\\\\u(d[89a-f][0-9a-f]{2})', '${LONE}\\1')`
  const code = `reinterpretAsUInt16(reverse(unhex(substring(piece, 1, 4))))`
  const bytes = `char(237, 128 + bitAnd(bitShiftRight(${code}, 6), 63), 128 + bitAnd(${code}, 63))`
  const withHalves = splitAtLone(`JSONExtractString(${marked})`, () => `concat(${bytes}, substring(piece, 5))`)
  // An odd number of backslashes. This shares no expression with `withHalves`: ClickHouse would compute it for every
  // row.
  const hasHalves = String.raw`match(${token}, '[^\\\\](\\\\\\\\)*\\\\ud[89a-f]')`
  return `multiIf(NOT ${isEscaped}, ${bare}, ${hasHalves}, ${withHalves}, ${decoded})`
}

/** Turns the token of an empty text into no token. */
export function emptyToUnset(token: string): string {
  return `replaceRegexpOne(${token}, '^""$', '')`
}

/** Whether a token is a string. */
export function isText(token: string): string {
  return `startsWith(${token}, '"')`
}

/** Whether a token is an array. */
export function isArray(token: string): string {
  return `startsWith(${token}, '[')`
}

/**
 * The tokens of an array's elements.
 * @param mayBeRepaired whether the token may be from a repaired text, so that the parser may reject it
 */
export function extractMembers(token: string, mayBeRepaired: boolean): string {
  const members = `JSONExtractArrayRaw(${token})`
  if (!mayBeRepaired) return members
  const marked = `arrayMap(member -> ${unmarkToken('member')}, JSONExtractArrayRaw(${repairText(token)}))`
  return `if(${token} != '[]' AND empty(${members}), ${marked}, ${members})`
}

/** The double of a number's token; null for any other token, because no other parses as a number. */
export function parseNumber(token: string): string {
  return `toFloat64OrNull(${token})`
}

/** A double as JSON.stringify writes it; `1e400` if it is infinite. */
export function formatNumber(number: string): string {
  const text = `toString(${number} + 0)`
  const isLarge = `position(${text}, 'e') > 0 AND position(${text}, 'e-') = 0`
  return `multiIf(isInfinite(${number}), if(${number} < 0, '-1e400', '1e400'), ${isLarge}, replaceOne(${text}, 'e', 'e+'), ${text})`
}

/** A token's value as JSON, equal for equal values: numbers as doubles, `null` if it is not set. */
export function formatJson(token: string, repairsTexts: boolean): string {
  // Only numbers begin with one of these characters. Most tokens are already in this form, except long integers, -0 and
  // numbers with large exponents.
  const isNumber = `${token} >= '-' AND ${token} < ':'`
  const isLong = `length(${token}) > 15 OR ${token} = '-0' OR position(${token}, 'e') > 0`
  const number = formatNumber(`toFloat64OrZero(${token})`)
  const isWithin = `(${isArray(token)} OR startsWith(${token}, '{')) AND match(${token}, '[0-9]{16}|[0-9]e|-0')`
  const within = repairsTexts ? `${isWithin}, ${formatNumbersAsDoubles(token)}` : `${failIf(isWithin)}, ''`
  return `multiIf(${token} = '', 'null', ${isNumber} AND (${isLong}), ${number}, ${within}, ${token})`
}

/** The token of an array or object with numbers as `formatJson` writes them. */
function formatNumbersAsDoubles(token: string): string {
  const part = `if(match(part, '^[-0-9]'), ${formatNumber('toFloat64OrZero(part)')}, part)`
  return `arrayStringConcat(arrayMap(part -> ${part}, extractAll(${token}, '${PARTS}')))`
}

/** The token that ClickHouse writes for a string. */
export function toTextToken(text: string): string {
  return JSON.stringify(text).replace(ESCAPE, (escaped) => {
    return escaped.length === 6 && escaped.startsWith('\\u00')
      ? `\\u00${escaped.slice(4).toUpperCase()}`
      : (SEPARATORS[escaped] ?? escaped)
  })
}

/** The `breakdown` column of events with these values; see `formatJson`. */
export function formatBreakdown(values: readonly unknown[]): string {
  return `[${values.map(formatValue).join(',')}]`
}

function formatValue(value: unknown): string {
  if (typeof value === 'string') return toTextToken(value)
  if (typeof value === 'number' && !Number.isFinite(value)) return value < 0 ? '-1e400' : '1e400'
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return formatBreakdown(value)
  return `{${Object.entries(value).map(([name, member]) => `${toTextToken(name)}:${formatValue(member)}`)}}`
}

const ESCAPE = /\\u[\da-f]{4}|\\.|[\u2028\u2029]/g
const SEPARATORS: Record<string, string> = { '\u2028': '\\u2028', '\u2029': '\\u2029' }

/** The bytes that `decodeText` yields for a text. */
export function encodeText(text: string): Buffer {
  if (text.isWellFormed()) return Buffer.from(text)
  const parts: Buffer[] = []
  for (const character of text) {
    const code = character.charCodeAt(0)
    const isHalf = character.length === 1 && code >= 0xd800 && code < 0xe000
    parts.push(isHalf ? Buffer.from([0xed, 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)]) : Buffer.from(character))
  }
  return Buffer.concat(parts)
}
