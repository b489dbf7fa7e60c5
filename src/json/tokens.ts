/**
 * Primitives for scanning JSON in a buffer. Each takes an offset and returns the offset after the token, or UNKNOWN.
 * Every reader of JSON uses them: the scanner of tracking bodies (model/scan.ts), the reader of values (value.ts), and
 * searches for a single field in bytes that may be incomplete.
 */

// Declared here, not in bytes.ts, which explains why.
const BACKSLASH = 0x5c
const CLOSE_BRACE = 0x7d
const CLOSE_BRACKET = 0x5d
const COLON = 0x3a
const COMMA = 0x2c
const FALSE = 0x66
const MINUS = 0x2d
const NINE = 0x39
const NULL = 0x6e
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const QUOTE = 0x22
const TRUE = 0x74
const ZERO = 0x30
const DOT = 0x2e

/** Returned instead of an offset if the bytes are not valid JSON. */
export const UNKNOWN = -1

/** 1 for the bytes that have no special meaning in a string. Reading past the end gives undefined, which is not 1. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  Number(byte >= 0x20 && byte !== QUOTE && byte !== BACKSLASH),
)

const TRUE_TEXT = Buffer.from('true')
const FALSE_TEXT = Buffer.from('false')
const NULL_TEXT = Buffer.from('null')
const ESCAPES = [...Buffer.from('"\\/bfnrt')]

export function isAt(raw: Buffer, at: number, text: Buffer): boolean {
  for (let i = 0; i < text.length; i++) if (raw[at + i] !== text[i]) return false
  return true
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false
  const lower = byte | 0x20
  return (byte >= ZERO && byte <= NINE) || (lower >= 0x61 && lower <= 0x66)
}

/** The offset of the value whose name begins at `at`. */
export function anyName(raw: Buffer, at: number): number {
  if (raw[at] !== QUOTE) return UNKNOWN
  at = string(raw, at + 1)
  if (at === UNKNOWN) return UNKNOWN
  at = space(raw, at)
  return raw[at] === COLON ? space(raw, at + 1) : UNKNOWN
}

/** The offset after the string, number or literal that begins at `at`. */
export function scalar(raw: Buffer, at: number): number {
  switch (raw[at]) {
    case QUOTE:
      return string(raw, at + 1)
    case TRUE:
      return literal(raw, at, TRUE_TEXT)
    case FALSE:
      return literal(raw, at, FALSE_TEXT)
    case NULL:
      return literal(raw, at, NULL_TEXT)
    default:
      return number(raw, at)
  }
}

function literal(raw: Buffer, at: number, literal: Buffer): number {
  return isAt(raw, at, literal) ? at + literal.length : UNKNOWN
}

function number(raw: Buffer, at: number): number {
  if (raw[at] === MINUS) at++
  let end = digits(raw, at)
  if (end === at || (raw[at] === ZERO && end > at + 1)) return UNKNOWN
  if (raw[end] === DOT) {
    at = end + 1
    end = digits(raw, at)
    if (end === at) return UNKNOWN
  }
  if (raw[end] === 0x65 || raw[end] === 0x45) {
    at = end + 1
    if (raw[at] === 0x2b || raw[at] === MINUS) at++
    end = digits(raw, at)
    if (end === at) return UNKNOWN
  }
  return end
}

export function digits(raw: Buffer, at: number): number {
  for (let byte = raw[at]; byte !== undefined && byte >= ZERO && byte <= NINE; ) byte = raw[++at]
  return at
}

/** The offset after the string whose first character is at `at`. */
export function string(raw: Buffer, at: number): number {
  for (;;) {
    while (PLAIN[raw[at] as number] === 1) at++
    const byte = raw[at]
    if (byte === QUOTE) return at + 1
    if (byte !== BACKSLASH) return UNKNOWN
    const letter = raw[at + 1]
    if (letter === 0x75) {
      for (let i = at + 2; i < at + 6; i++) if (!isHex(raw[i])) return UNKNOWN
      at += 6
    } else {
      if (letter === undefined || !ESCAPES.includes(letter)) return UNKNOWN
      at += 2
    }
  }
}

export function space(raw: Buffer, at: number): number {
  // Most JSON has no white space.
  if ((raw[at] ?? 0) > 0x20) return at
  for (let byte = raw[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09; ) byte = raw[++at]
  return at
}

/**
 * The offset after the value that begins at `start`, found by its brackets and strings alone: the bytes need not be
 * valid JSON. If the value does not end in these bytes, it is their length.
 */
export function valueEnd(raw: Buffer, start: number): number {
  let depth = 0
  for (let at = start; at < raw.length; at++) {
    switch (raw[at]) {
      case QUOTE:
        at = stringEnd(raw, at) - 1
        if (depth === 0) return at + 1
        break
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth++
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        // No container of the value is open, so the bracket closes the one around it.
        if (depth === 0) return at
        if (--depth === 0) return at + 1
        break
      case COMMA:
        if (depth === 0) return at
    }
  }
  return raw.length
}

/** Like `valueEnd`, for the string whose first quote is at `start`. */
export function stringEnd(raw: Buffer, start: number): number {
  for (let at = start + 1; at < raw.length; at++) {
    while (PLAIN[raw[at] as number] === 1) at++
    const byte = raw[at]
    if (byte === QUOTE) return at + 1
    if (byte === BACKSLASH) at++
  }
  return raw.length
}

/** The offset of the member or element after a value that ends at `end`, or of the closing bracket. For valid JSON. */
export function afterComma(raw: Buffer, end: number): number {
  const at = space(raw, end)
  return raw[at] === COMMA ? space(raw, at + 1) : at
}
