import { MINUS, NINE, QUOTE, ZERO } from './bytes.js'
import { isNumber } from './texts.js'
import type { JsonValue } from './value.js'

/** Values that are nested deeper keep their spelling, since `spell` recurses and the stack is limited. */
const MAX_DEPTH = 500

/**
 * The canonical JSON of a value, for comparisons and as a Set key: no white space, sorted names, the last of duplicate
 * names, strings as JSON.stringify writes them, numbers as their exact decimal value (`1.0` is `1`, `100` is `1e2`,
 * `-0` is `0`). No number becomes a double, so different 64-bit ids never compare as equal; for the same reason `0.1`
 * and `0.1000000000000000055` differ, although JSON.parse returns the same double for both.
 *
 * Equal values nested more than 500 deep may get different texts. Different values never get the same one.
 */
export function canonical(value: JsonValue): string {
  return spell(value, 0)
}

function spell(value: JsonValue, depth: number): string {
  if (depth < MAX_DEPTH) {
    if (value.isObject) return spellObject(value, depth + 1)
    if (value.isArray) return `[${value.elements().map((element) => spell(element, depth + 1))}]`
  }
  const { text } = value
  // Most values are short numbers and plain strings, which are their own canonical text.
  if (isPlain(text)) return text
  if (value.isString) return JSON.stringify(value.value)
  return isNumber(text) ? decimal(text) : text
}

function spellObject(object: JsonValue, depth: number): string {
  const members = [...object.members()].map(([name, value]) => [JSON.stringify(name), value] as const)
  members.sort(([one], [other]) => (one < other ? -1 : 1))
  return `{${members.map(([name, value]) => `${name}:${spell(value, depth)}`)}}`
}

/**
 * Whether the text of a value is a canonical string without escapes, or a canonical short integer, which does not end
 * with a 0 unless it is 0. False for every other text, even a canonical one.
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

/** Integers of up to this many digits, and their sums, are exact as doubles. */
const MAX_EXACT_DIGITS = 15
const EXACT_LIMIT = 10 ** MAX_EXACT_DIGITS

/**
 * The sum of an integer of any length, as decimal text, and one of at most 15 digits. BigInt would take time quadratic
 * in the length: 0.9 s for a million digits.
 */
function plus(integer: string, summand: number): string {
  const isNegative = integer.startsWith('-')
  const digits = withoutZeros(integer.replace(/^[-+]/, ''))
  if (digits.length <= MAX_EXACT_DIGITS) return String((isNegative ? -Number(digits) : Number(digits)) + summand)
  // A longer integer keeps its sign: its last digits change, and on overflow those before them change by one.
  const cut = digits.length - MAX_EXACT_DIGITS
  let head = digits.slice(0, cut)
  let tail = Number(digits.slice(cut)) + (isNegative ? -summand : summand)
  if (tail >= EXACT_LIMIT) {
    tail -= EXACT_LIMIT
    head = increment(head)
  } else if (tail < 0) {
    tail += EXACT_LIMIT
    head = decrement(head)
  }
  const magnitude = withoutZeros(head + String(tail).padStart(MAX_EXACT_DIGITS, '0'))
  return isNegative ? `-${magnitude}` : magnitude
}

/** A positive integer of any length, plus one. */
function increment(digits: string): string {
  const kept = digits.length - countAtEnd(digits, NINE)
  const rest = '0'.repeat(digits.length - kept)
  return kept === 0 ? `1${rest}` : `${digits.slice(0, kept - 1)}${Number(digits[kept - 1]) + 1}${rest}`
}

/** A positive integer of any length, minus one; the result may begin with a zero. */
function decrement(digits: string): string {
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
