/** JSON values in a buffer, of which the scans are made; each function says where what it passed ends. */

export const QUOTE = 0x22
export const BACKSLASH = 0x5c
export const COMMA = 0x2c
export const COLON = 0x3a
export const OPEN_BRACE = 0x7b
export const CLOSE_BRACE = 0x7d
export const OPEN_BRACKET = 0x5b
export const CLOSE_BRACKET = 0x5d
export const ZERO = 0x30
const MINUS = 0x2d
const DOT = 0x2e
const NINE = 0x39

/** No offset, as those are 0 or more: the scan cannot tell. */
export const UNKNOWN = -1

/** 1 for the bytes that stand for themselves in a string; undefined, read past the end, is none of them. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  Number(byte >= 0x20 && byte !== QUOTE && byte !== BACKSLASH),
)

const TRUE = Buffer.from('true')
const FALSE = Buffer.from('false')
const NULL = Buffer.from('null')
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

/** The offset after the value without members that begins at `at`. */
export function scalar(raw: Buffer, at: number): number {
  switch (raw[at]) {
    case QUOTE:
      return string(raw, at + 1)
    case 0x74:
      return literal(raw, at, TRUE)
    case 0x66:
      return literal(raw, at, FALSE)
    case 0x6e:
      return literal(raw, at, NULL)
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
  // Most texts have none.
  if ((raw[at] ?? 0) > 0x20) return at
  for (let byte = raw[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09; ) byte = raw[++at]
  return at
}
