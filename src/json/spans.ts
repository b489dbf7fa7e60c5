/**
 * Finds the parts of a JSON text without reading their values. JSON.parse loses how a value was spelled (`1.0`, `1e400`,
 * integers beyond 2^53, escapes) and in which order the names came; properties are kept as the text the client sent.
 *
 * Every text given to these functions must be one that JSON.parse accepted. Nothing is promised for any other text.
 * Scanning takes time linear in the text. Nesting of any depth is safe, since values are skipped by counting brackets.
 */

/** A value's place in the text, without the white space around it; `end` is exclusive. */
export interface Span {
  start: number
  end: number
}

/** A member of an object: its name with the escapes resolved, and the place of its value. */
export interface Member extends Span {
  name: string
}

const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_ARRAY = 0x5b
const BACKSLASH = 0x5c
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const MINUS = 0x2d
const ZERO = 0x30
const NINE = 0x39

/**
 * The members of the object at `at`, in the order of the text; a name that is there twice is there twice in the answer.
 * @throws TypeError where the value at `at` is no object
 */
export function members(text: string, at = 0): Member[] {
  const found: Member[] = []
  let i = enter(text, at, OPEN_OBJECT)
  while (text.charCodeAt(i) !== CLOSE_OBJECT) {
    const nameEnd = stringEnd(text, i)
    const start = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = valueEnd(text, start)
    found.push({ name: decoded(text, i, nameEnd), start, end })
    i = next(text, end)
  }
  return found
}

/**
 * The elements of the array at `at`.
 * @throws TypeError where the value at `at` is no array
 */
export function elements(text: string, at = 0): Span[] {
  const found: Span[] = []
  let i = enter(text, at, OPEN_ARRAY)
  while (text.charCodeAt(i) !== CLOSE_ARRAY) {
    const end = valueEnd(text, i)
    found.push({ start: i, end })
    i = next(text, end)
  }
  return found
}

/**
 * The members of the object that a text is: name → the text of its value, in the order in which the names were first
 * there; of a name that is there twice, the last value.
 * @throws TypeError where the text is no object
 */
export function memberTexts(text: string): Map<string, string> {
  const found = new Map<string, string>()
  let i = enter(text, 0, OPEN_OBJECT)
  while (text.charCodeAt(i) !== CLOSE_OBJECT) {
    const nameEnd = stringEnd(text, i)
    const start = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = valueEnd(text, start)
    found.set(decoded(text, i, nameEnd), text.slice(start, end))
    i = next(text, end)
  }
  return found
}

/** How many values a text holds, itself included, at whatever depth; an empty object or array may count twice. */
export function countValues(text: string): number {
  let count = 1
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case QUOTE:
        i = stringEnd(text, i) - 1
        break
      case COMMA:
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        count++
    }
  }
  return count
}

/**
 * The text of a member's value, or undefined where the object at `at` has none of that name. The last of several wins,
 * as with JSON.parse.
 * @throws TypeError where the value at `at` is no object
 */
export function memberText(text: string, name: string, at = 0): string | undefined {
  const member = members(text, at).findLast((candidate) => candidate.name === name)
  return member && text.slice(member.start, member.end)
}

/** Deeper than this, `canonical` takes the text as it is: it recurses, and the stack has an end. */
const MAX_DEPTH = 500

/**
 * The one spelling shared by all texts of the same value, for comparing and for Set keys: no white space, names sorted,
 * the last of duplicate names, strings as JSON.stringify spells them, numbers as their exact decimal value (`1.0` is `1`,
 * `100` is `1e2`, `-0` is `0`). No number passes through a double, so two 64-bit ids are never taken for one; for the
 * same reason `0.1` and `0.1000000000000000055` differ, though JSON.parse reads the same double from both.
 *
 * Equal values nested more than 500 deep may get different texts. Different values never get the same one.
 */
export function canonical(text: string): string {
  // Most values are short numbers and plain strings, which are their own canonical text.
  if (isPlain(text)) return text
  let i = 0

  function value(depth: number): string {
    i = skipSpace(text, i)
    const start = i
    const code = text.charCodeAt(i)
    if (depth < MAX_DEPTH) {
      if (code === OPEN_OBJECT) return object(depth + 1)
      if (code === OPEN_ARRAY) return array(depth + 1)
    }
    i = valueEnd(text, start)
    const raw = text.slice(start, i)
    if (isPlain(raw)) return raw
    if (code === QUOTE) return respell(raw)
    return isNumber(raw) ? decimal(raw) : raw
  }

  function object(depth: number): string {
    const values = new Map<string, string>()
    i = skipSpace(text, i + 1)
    while (text.charCodeAt(i) !== CLOSE_OBJECT) {
      const nameStart = i
      const nameEnd = stringEnd(text, i)
      i = skipSpace(text, nameEnd) + 1
      values.set(respell(text.slice(nameStart, nameEnd)), value(depth))
      i = next(text, i)
    }
    i++
    let all = ''
    for (const name of [...values.keys()].sort()) all += `${all && ','}${name}:${values.get(name)}`
    return `{${all}}`
  }

  function array(depth: number): string {
    let all = ''
    i = skipSpace(text, i + 1)
    while (text.charCodeAt(i) !== CLOSE_ARRAY) {
      all += `${all && ','}${value(depth)}`
      i = next(text, i)
    }
    i++
    return `[${all}]`
  }

  return value(0)
}

/** Whether the text of a value is that of a number. */
export function isNumber(text: string): boolean {
  return /^[-\d]/.test(text)
}

/** Whether the text of a value is that of an array. */
export function isArray(text: string): boolean {
  return text.charCodeAt(0) === OPEN_ARRAY
}

/** The place of the first member or element, or of the closing bracket. */
function enter(text: string, at: number, bracket: number): number {
  const start = skipSpace(text, at)
  if (text.charCodeAt(start) !== bracket) {
    throw new TypeError(`no ${bracket === OPEN_ARRAY ? 'array' : 'object'} at ${start}`)
  }
  return skipSpace(text, start + 1)
}

/** From the end of a value to the next one, or to the closing bracket. */
function next(text: string, end: number): number {
  const i = skipSpace(text, end)
  return text.charCodeAt(i) === COMMA ? skipSpace(text, i + 1) : i
}

/** JSON's white space is space, tab, line feed and carriage return; in a valid text nothing else here is below 0x21. */
function skipSpace(text: string, at: number): number {
  let i = at
  while (text.charCodeAt(i) <= 0x20) i++
  return i
}

function valueEnd(text: string, start: number): number {
  switch (text.charCodeAt(start)) {
    case QUOTE:
      return stringEnd(text, start)
    case OPEN_OBJECT:
    case OPEN_ARRAY:
      return containerEnd(text, start)
    default:
      return literalEnd(text, start)
  }
}

function containerEnd(text: string, start: number): number {
  let depth = 0
  let i = start
  do {
    switch (text.charCodeAt(i)) {
      case QUOTE:
        i = stringEnd(text, i)
        continue
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        depth++
        break
      case CLOSE_OBJECT:
      case CLOSE_ARRAY:
        depth--
        break
    }
    i++
  } while (depth > 0)
  return i
}

/** A quote closes the string unless an odd number of backslashes stands before it. */
function stringEnd(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let i = quote
    while (text.charCodeAt(i - 1) === BACKSLASH) i--
    if ((quote - i) % 2 === 0) return quote + 1
  }
  throw new TypeError(`the string at ${start} has no end`)
}

function literalEnd(text: string, start: number): number {
  let i = start
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code <= 0x20 || code === COMMA || code === CLOSE_ARRAY || code === CLOSE_OBJECT) break
  }
  return i
}

/** The string between two quotes, which are at `start` and before `end`. */
function decoded(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end - 1)
  return inner.includes('\\') ? (JSON.parse(text.slice(start, end)) as string) : inner
}

function respell(string: string): string {
  return isPlain(string) ? string : JSON.stringify(JSON.parse(string))
}

/**
 * Whether the text of a value is a string without escapes, or a short integer, that is spelled in its canonical way: no
 * integer ends with a 0 there but 0 itself. Of others, which may be, it says false.
 */
function isPlain(text: string): boolean {
  const first = text.charCodeAt(0)
  if (first === QUOTE) return text.endsWith('"') && !text.includes('\\') && text.isWellFormed()
  if (text.length > MAX_EXACT_DIGITS) return false
  for (let i = first === MINUS ? 1 : 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < ZERO || code > NINE) return false
  }
  return text.charCodeAt(text.length - 1) !== ZERO || text === '0'
}

/**
 * A number as its significant digits and a power of ten: `-1.50e3` is `-15e2`. Takes time linear in the text, whatever
 * the exponent.
 */
function decimal(number: string): string {
  const e = Math.max(number.indexOf('e'), number.indexOf('E'))
  const start = number.charCodeAt(0) === MINUS ? 1 : 0
  const mantissa = number.slice(start, e === -1 ? undefined : e)
  const dot = mantissa.indexOf('.')
  const digits = withoutZeros(dot === -1 ? mantissa : mantissa.slice(0, dot) + mantissa.slice(dot + 1))
  if (digits === '') return '0'
  const zeros = countAtEnd(digits, ZERO)
  const power = zeros - (dot === -1 ? 0 : mantissa.length - dot - 1)
  const exponent = e === -1 ? String(power) : plus(number.slice(e + 1), power)
  const significant = zeros === 0 ? digits : digits.slice(0, -zeros)
  return `${start === 1 ? '-' : ''}${significant}${exponent === '0' ? '' : `e${exponent}`}`
}

/** Integers of so many digits, and their sums, are exact as doubles. */
const MAX_EXACT_DIGITS = 15
const EXACT_LIMIT = 10 ** MAX_EXACT_DIGITS

/**
 * The sum of an integer of any length, given as decimal text, and one of at most 15 digits. BigInt would need time that
 * grows with the square of the length: 0.9 s for a million digits.
 */
function plus(integer: string, summand: number): string {
  const isNegative = integer.startsWith('-')
  const digits = withoutZeros(integer.replace(/^[-+]/, ''))
  if (digits.length <= MAX_EXACT_DIGITS) return String((isNegative ? -Number(digits) : Number(digits)) + summand)
  // Beyond, the sum has the sign of the integer: the last digits change, and where they overflow those before them by one.
  const cut = digits.length - MAX_EXACT_DIGITS
  let head = digits.slice(0, cut)
  let tail = Number(digits.slice(cut)) + (isNegative ? -summand : summand)
  if (tail >= EXACT_LIMIT) {
    tail -= EXACT_LIMIT
    head = incremented(head)
  } else if (tail < 0) {
    tail += EXACT_LIMIT
    head = decremented(head)
  }
  const magnitude = withoutZeros(head + String(tail).padStart(MAX_EXACT_DIGITS, '0'))
  return isNegative ? `-${magnitude}` : magnitude
}

/** A positive integer of any length and one more. */
function incremented(digits: string): string {
  const kept = digits.length - countAtEnd(digits, NINE)
  const rest = '0'.repeat(digits.length - kept)
  return kept === 0 ? `1${rest}` : `${digits.slice(0, kept - 1)}${Number(digits[kept - 1]) + 1}${rest}`
}

/** A positive integer of any length and one less; may begin with a zero. */
function decremented(digits: string): string {
  const kept = digits.length - countAtEnd(digits, ZERO)
  return `${digits.slice(0, kept - 1)}${Number(digits[kept - 1]) - 1}${'9'.repeat(digits.length - kept)}`
}

function countAtEnd(text: string, code: number): number {
  let count = 0
  while (count < text.length && text.charCodeAt(text.length - 1 - count) === code) count++
  return count
}

function withoutZeros(digits: string): string {
  let zeros = 0
  while (digits.charCodeAt(zeros) === ZERO) zeros++
  return zeros === 0 ? digits : digits.slice(zeros)
}
