/**
 * A look at a tracking body that takes it without parsing it. It goes over the bytes once, makes no objects, and either
 * knows that the body is valid JSON of the right shape that ClickHouse reads as `JSON.parse` does, or it does not know.
 * What it does not know (anything wrong, and much that is only unusual) is parsed and checked in the ordinary way, which
 * finds the words for what is wrong. It takes half the time of parsing alone.
 */

import { MAX_SCAN_DEPTH } from '../contract/limits.js'
import { COLON_WEIGHT, MAX_BATCH_WEIGHT, MAX_WEIGHT } from '../json/complexity.js'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const MINUS = 0x2d
const DOT = 0x2e
const ZERO = 0x30
const NINE = 0x39

/** "Not known": every position is 0 or more. */
const UNKNOWN = -1

const MAX_NAME_BYTES = 255
/** So many digits are a timestamp from 0 to 9 999 999 999 999. */
const MAX_TIMESTAMP_DIGITS = 13

const EVENT = 1
const DISTINCT_ID = 2
const TIMESTAMP = 4
const PROPERTIES = 8
const EVENTS = 16
const API_KEY = 32
const OTHER = 64

const NAMES: [name: Buffer, field: number][] = [
  [Buffer.from('event'), EVENT],
  [Buffer.from('distinct_id'), DISTINCT_ID],
  [Buffer.from('timestamp'), TIMESTAMP],
  [Buffer.from('properties'), PROPERTIES],
  [Buffer.from('events'), EVENTS],
  [Buffer.from('apiKey'), API_KEY],
]

/** A tracking body that is known to be right. */
export class ScannedBody {
  /** events in it */
  readonly count: number
  /** the key in it, if there is one; named as the field, so that it is found like that of a parsed body */
  readonly apiKey: string | undefined
  /** whether it has fields that the contract does not know */
  readonly hasOthers: boolean
  readonly #keyStart: number

  constructor(count: number, apiKey: string | undefined, keyStart: number, hasOthers: boolean) {
    this.count = count
    this.apiKey = apiKey
    this.hasOthers = hasOthers
    this.#keyStart = keyStart
  }

  /** Puts asterisks where the key is. */
  overwriteKey(raw: Buffer): void {
    if (this.apiKey !== undefined) raw.fill('*', this.#keyStart, this.#keyStart + this.apiKey.length)
  }
}

/**
 * @param raw valid UTF-8
 * @param maxDepth properties that are nested deeper are not known
 */
export function scanEvent(raw: Buffer, maxDepth = MAX_SCAN_DEPTH): ScannedBody | null {
  return new Scan(raw, maxDepth, MAX_WEIGHT).event()
}

/**
 * @param raw valid UTF-8
 * @param maxEvents a body with more is not known
 * @param maxDepth properties that are nested deeper are not known
 */
export function scanBatch(raw: Buffer, maxEvents: number, maxDepth = MAX_SCAN_DEPTH): ScannedBody | null {
  return new Scan(raw, maxDepth, MAX_BATCH_WEIGHT).batch(maxEvents)
}

/** Looks at the events in bytes that hold many of them, as a file to import does. */
export class EventScan {
  readonly #scan: Scan

  /** @param raw what was found in it is only good where it is valid UTF-8 */
  constructor(raw: Buffer) {
    this.#scan = new Scan(raw, MAX_SCAN_DEPTH, Number.POSITIVE_INFINITY)
  }

  /** The position after the event that begins at `at`, or -1 where it is not known to be one. */
  endOf(at: number): number {
    return this.#scan.next(at)
  }

  /** Whether the last event has a field that is none of the contract's. */
  get hasOthers(): boolean {
    return (this.#scan.fields & OTHER) !== 0
  }

  get hasTimestamp(): boolean {
    return (this.#scan.fields & TIMESTAMP) !== 0
  }

  /** Whether the last event has properties, null included. */
  get hasProperties(): boolean {
    return (this.#scan.fields & PROPERTIES) !== 0
  }
}

/** What is open around a value, by how it closes; one for all scans, as none ever waits. */
const stack = new Uint8Array(MAX_SCAN_DEPTH)

class Scan {
  /** of the last event */
  fields = 0
  readonly #raw: Buffer
  readonly #maxDepth: number
  #apiKey: string | undefined
  #keyStart = 0
  #seen = 0
  /** as `weigh` counts it, so far */
  #weight = 0
  readonly #maxWeight: number

  constructor(raw: Buffer, maxDepth: number, maxWeight: number) {
    this.#raw = raw
    this.#maxDepth = maxDepth
    this.#maxWeight = maxWeight
  }

  next(at: number): number {
    return this.#event(at, EVENT | DISTINCT_ID | TIMESTAMP | PROPERTIES)
  }

  event(): ScannedBody | null {
    const end = this.#event(space(this.#raw, 0), EVENT | DISTINCT_ID | TIMESTAMP | PROPERTIES | API_KEY)
    return this.#body(end, 1)
  }

  batch(maxEvents: number): ScannedBody | null {
    const raw = this.#raw
    let at = space(raw, 0)
    if (raw[at] !== OPEN_BRACE) return null
    this.#weight++
    let count = 0
    let fields = 0
    at = space(raw, at + 1)
    for (;;) {
      const field = this.#name(at)
      if (field === UNKNOWN || (fields & field & ~OTHER) !== 0) return null
      // Fields of an event mean nothing here.
      fields |= field
      at = this.#value
      if (field === EVENTS) {
        if (raw[at] !== OPEN_BRACKET) return null
        this.#weight++
        at = space(raw, at + 1)
        for (;;) {
          at = this.#event(at, EVENT | DISTINCT_ID | TIMESTAMP | PROPERTIES)
          if (at === UNKNOWN || ++count > maxEvents) return null
          at = space(raw, at)
          if (raw[at] === CLOSE_BRACKET) break
          if (raw[at] !== COMMA) return null
          this.#weight++
          at = space(raw, at + 1)
        }
        at++
      } else if (field === API_KEY) {
        at = this.#key(at)
      } else {
        this.#seen |= OTHER
        at = this.#skip(at)
      }
      if (at === UNKNOWN) return null
      at = space(raw, at)
      if (raw[at] === CLOSE_BRACE) break
      if (raw[at] !== COMMA) return null
      this.#weight++
      at = space(raw, at + 1)
    }
    return count === 0 ? null : this.#body(at + 1, count)
  }

  #body(end: number, count: number): ScannedBody | null {
    if (end === UNKNOWN || space(this.#raw, end) !== this.#raw.length || this.#weight > this.#maxWeight) return null
    return new ScannedBody(count, this.#apiKey, this.#keyStart, (this.#seen & OTHER) !== 0)
  }

  /** The position after the event that begins at `at`; `known` are the fields that mean something in it. */
  #event(at: number, known: number): number {
    const raw = this.#raw
    if (raw[at] !== OPEN_BRACE) return UNKNOWN
    this.#weight++
    let fields = 0
    at = space(raw, at + 1)
    for (;;) {
      let field = this.#name(at)
      if (field === UNKNOWN) return UNKNOWN
      if ((field & known) === 0) field = OTHER
      if ((fields & field & ~OTHER) !== 0) return UNKNOWN
      fields |= field
      at = this.#value
      switch (field) {
        case EVENT:
        case DISTINCT_ID:
          at = this.#text(at)
          break
        case TIMESTAMP:
          at = this.#timestamp(at)
          break
        case PROPERTIES:
          if (raw[at] !== OPEN_BRACE && raw[at] !== 0x6e) return UNKNOWN
          at = this.#skip(at, this.#maxDepth)
          break
        case API_KEY:
          at = this.#key(at)
          break
        default:
          this.#seen |= OTHER
          at = this.#skip(at)
      }
      if (at === UNKNOWN) return UNKNOWN
      at = space(raw, at)
      if (raw[at] === CLOSE_BRACE) break
      if (raw[at] !== COMMA) return UNKNOWN
      this.#weight++
      at = space(raw, at + 1)
    }
    this.fields = fields
    return (fields & EVENT) !== 0 && (fields & DISTINCT_ID) !== 0 ? at + 1 : UNKNOWN
  }

  /** where the value begins whose name was read last */
  #value = 0

  /** Which field begins at `at`; one whose name is spelled with an escape is not known. */
  #name(at: number): number {
    const raw = this.#raw
    if (raw[at] !== QUOTE) return UNKNOWN
    const start = at + 1
    let end = start
    for (let byte = raw[end]; byte !== QUOTE; byte = raw[++end]) {
      if (byte === undefined || byte === BACKSLASH || byte < 0x20) return UNKNOWN
    }
    at = space(raw, end + 1)
    if (raw[at] !== COLON) return UNKNOWN
    this.#value = space(raw, at + 1)
    this.#weight += COLON_WEIGHT
    for (const [name, field] of NAMES) {
      if (name.length === end - start && isAt(raw, start, name)) return field
    }
    return OTHER
  }

  /** A name of 1 to 255 characters for certain, as no character is longer decoded than it is spelled. */
  #text(at: number): number {
    const raw = this.#raw
    if (raw[at] !== QUOTE) return UNKNOWN
    const start = at + 1
    const end = string(raw, start)
    if (end === UNKNOWN || end === start + 1 || end - start - 1 > MAX_NAME_BYTES) return UNKNOWN
    // Half of a surrogate pair would be an error; whether it is one is left to the parser.
    for (let i = start; i < end - 5; i++) {
      if (raw[i] !== BACKSLASH) continue
      i++
      if (raw[i] === 0x75 && ((raw[i + 1] ?? 0) | 0x20) === 0x64 && (raw[i + 2] ?? 0) >= 0x38) return UNKNOWN
    }
    return end
  }

  #key(at: number): number {
    const raw = this.#raw
    if (raw[at] !== QUOTE) return UNKNOWN
    const start = at + 1
    const end = raw.indexOf(QUOTE, start)
    if (end === -1) return UNKNOWN
    for (let i = start; i < end; i++) {
      const byte = raw[i] ?? 0
      if (byte < 0x20 || byte > 0x7e || byte === BACKSLASH) return UNKNOWN
    }
    this.#apiKey = raw.toString('latin1', start, end)
    this.#keyStart = start
    return end + 1
  }

  #timestamp(at: number): number {
    const raw = this.#raw
    if (raw[at] === 0x6e) return this.#skip(at)
    const end = digits(raw, at)
    const length = end - at
    // A fraction or an exponent would be no end of the field.
    return length === 0 || length > MAX_TIMESTAMP_DIGITS || (length > 1 && raw[at] === ZERO) ? UNKNOWN : end
  }

  /** The position after any value; `maxDepth` is at most what the stack holds. */
  #skip(at: number, maxDepth = MAX_SCAN_DEPTH): number {
    const raw = this.#raw
    let depth = 0
    let weight = 0
    for (;;) {
      const byte = raw[at]
      if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        if (depth === maxDepth) return UNKNOWN
        weight++
        const close = byte === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET
        at = space(raw, at + 1)
        if (raw[at] !== close) {
          stack[depth++] = close
          if (close === CLOSE_BRACKET) continue
          at = anyName(raw, at)
          if (at === UNKNOWN) return UNKNOWN
          weight += COLON_WEIGHT
          continue
        }
        at++
      } else {
        at = scalar(raw, at)
        if (at === UNKNOWN) return UNKNOWN
      }
      // After a value: what is around it ends, or goes on.
      for (;;) {
        if (depth === 0) {
          this.#weight += weight
          return at
        }
        at = space(raw, at)
        const close = stack[depth - 1]
        if (raw[at] === COMMA) {
          at = space(raw, at + 1)
          weight++
          if (close === CLOSE_BRACE) {
            at = anyName(raw, at)
            weight += COLON_WEIGHT
          }
          if (at === UNKNOWN) return UNKNOWN
          break
        }
        if (raw[at] !== close) return UNKNOWN
        at++
        depth--
      }
    }
  }
}

/** The bytes that mean nothing in a string; past the end of a body there is none. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  Number(byte >= 0x20 && byte !== QUOTE && byte !== BACKSLASH),
)

const TRUE = Buffer.from('true')
const FALSE = Buffer.from('false')
const NULL = Buffer.from('null')
const ESCAPES = [...Buffer.from('"\\/bfnrt')]

function isAt(raw: Buffer, at: number, text: Buffer): boolean {
  for (let i = 0; i < text.length; i++) if (raw[at + i] !== text[i]) return false
  return true
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false
  const lower = byte | 0x20
  return (byte >= ZERO && byte <= NINE) || (lower >= 0x61 && lower <= 0x66)
}

/** The position of the value whose name begins at `at`. */
function anyName(raw: Buffer, at: number): number {
  if (raw[at] !== QUOTE) return UNKNOWN
  at = string(raw, at + 1)
  if (at === UNKNOWN) return UNKNOWN
  at = space(raw, at)
  return raw[at] === COLON ? space(raw, at + 1) : UNKNOWN
}

function scalar(raw: Buffer, at: number): number {
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

function digits(raw: Buffer, at: number): number {
  for (let byte = raw[at]; byte !== undefined && byte >= ZERO && byte <= NINE; ) byte = raw[++at]
  return at
}

/** The position after the string whose first character is at `at`. */
function string(raw: Buffer, at: number): number {
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

function space(raw: Buffer, at: number): number {
  // Mostly there is none.
  if ((raw[at] ?? 0) > 0x20) return at
  for (let byte = raw[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09; ) byte = raw[++at]
  return at
}
