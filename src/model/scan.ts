/**
 * Validates a tracking body without parsing it. The scan makes one pass over the bytes, allocates no objects, and gives
 * one of two results: the body is valid JSON of the right shape, which ClickHouse reads as `JSON.parse` does; or
 * unknown. An unknown body (every invalid one, and many that are merely unusual) is parsed and validated in the
 * ordinary way, which also finds the error message. A scan takes half the time of `JSON.parse` alone.
 */

import { CONTEXT_TEXTS, DEVICES } from '../contract/context.js'
import { looksLikeSeconds, MAX_BATCH, MAX_SCAN_DEPTH } from '../contract/limits.js'
import { DAILY_VISITOR_PREFIX } from '../contract/user-names.js'
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  LINE_FEED,
  NULL,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  ZERO,
} from '../json/bytes.js'
import { COLON_WEIGHT, MAX_BATCH_WEIGHT, MAX_WEIGHT } from '../json/complexity.js'
import { anyName, digits, isAt, scalar, space, string, UNKNOWN } from '../json/tokens.js'
import { BATCH_HEAD, BATCH_TAIL, OFFSETS_PER_EVENT, ScannedBody } from './scanned-body.js'

const MAX_NAME_BYTES = 255
/** Digits of the greatest timestamp, 9 999 999 999 999. */
const MAX_TIMESTAMP_DIGITS = 13

const EVENT = 1
const DISTINCT_ID = 2
const TIMESTAMP = 4
const PROPERTIES = 8
const EVENTS = 16
const API_KEY = 32
const OTHER = 64
const INSERT_ID = 128
const SESSION_ID = 256
/** No field: a distinct_id may be the name of a daily visitor. */
const VISITOR = 512
const CONTEXT = 1024
const OF_EVENT = EVENT | DISTINCT_ID | TIMESTAMP | PROPERTIES | INSERT_ID | SESSION_ID | CONTEXT
const OF_EDIT = PROPERTIES | API_KEY

/** The known names by length, which distinguishes nearly all of them. */
const NAMES_OF_LENGTH = byLength([
  ['event', EVENT],
  ['distinct_id', DISTINCT_ID],
  ['timestamp', TIMESTAMP],
  ['properties', PROPERTIES],
  ['events', EVENTS],
  ['apiKey', API_KEY],
  ['insert_id', INSERT_ID],
  ['session_id', SESSION_ID],
  ['context', CONTEXT],
])
const NO_NAMES: FieldBit[] = []

/** The names of a context's fields, and the devices, as JSON. */
const CONTEXT_NAMES = [...CONTEXT_TEXTS, 'bot'].map((name) => Buffer.from(`"${name}"`))
const DEVICE = CONTEXT_TEXTS.indexOf('device')
const COUNTRY = CONTEXT_TEXTS.indexOf('country')
const BOT = CONTEXT_TEXTS.length
const DEVICE_TEXTS = DEVICES.map((device) => Buffer.from(`"${device}"`))
const TRUE = Buffer.from('true')

function isCapital(byte = 0): boolean {
  return byte >= 0x41 && byte <= 0x5a
}

interface FieldBit {
  name: Buffer
  field: number
}

function byLength(names: [name: string, field: number][]): FieldBit[][] {
  const longest = Math.max(...names.map(([name]) => name.length))
  return Array.from({ length: longest + 1 }, (_, length) =>
    names.filter(([name]) => name.length === length).map(([name, field]) => ({ name: Buffer.from(name), field })),
  )
}

/**
 * Scans the body of `/track`; null if it is unknown.
 * @param raw valid UTF-8
 * @param maxDepth a body whose properties are nested deeper is unknown
 */
export function scanEvent(raw: Buffer, maxDepth = MAX_SCAN_DEPTH): ScannedBody | null {
  return new Scan(raw, maxDepth, MAX_WEIGHT).event()
}

/**
 * Scans the body of `/track/batch`; null if it is unknown.
 * @param raw valid UTF-8
 * @param maxEvents a body with more is unknown; at most MAX_BATCH
 * @param maxDepth a body whose properties are nested deeper is unknown
 */
export function scanBatch(raw: Buffer, maxEvents: number, maxDepth = MAX_SCAN_DEPTH): ScannedBody | null {
  return new Scan(raw, maxDepth, MAX_BATCH_WEIGHT).batch(maxEvents)
}

/**
 * Scans lines of one event each, and makes them a batch: a comma replaces each line end between two events. Null if
 * they are unknown, and then they are unchanged.
 * @param raw valid UTF-8: BATCH_HEAD, the lines, BATCH_TAIL
 */
export function scanLines(raw: Buffer, maxEvents: number, maxDepth = MAX_SCAN_DEPTH): ScannedBody | null {
  return new Scan(raw, maxDepth, MAX_BATCH_WEIGHT).lines(maxEvents)
}

/** The closing brackets of the containers around a value. All scans share it, because none of them is asynchronous. */
const stack = new Uint8Array(MAX_SCAN_DEPTH)

/**
 * The offsets of the last scan, see `ScannedBody.offsets`; shared like the stack. They are recorded for every event,
 * but only copied if one has an id, so that a body without ids costs no allocation.
 */
const offsets = new Uint32Array(MAX_BATCH * OFFSETS_PER_EVENT)

/** The line ends of the last scan; also shared. */
const lineEnds = new Uint32Array(MAX_BATCH)

const VISITOR_PREFIX = Buffer.from(DAILY_VISITOR_PREFIX)
const DOLLAR = 0x24

/** Whether the text at an offset begins with the prefix of daily visitors, or with an escape, which may spell it. */
function mayBeVisitor(raw: Buffer, at: number): boolean {
  if (raw[at] === BACKSLASH) return true
  if (raw[at] !== DOLLAR) return false
  for (let i = 1; i < VISITOR_PREFIX.length; i++) {
    if (raw[at + i] === BACKSLASH) return true
    if (raw[at + i] !== VISITOR_PREFIX[i]) return false
  }
  return true
}

/** One pass over a buffer. */
class Scan {
  /** a bit for each field of the last event */
  fields = 0
  readonly #raw: Buffer
  readonly #maxDepth: number
  #apiKey: string | undefined
  #keyStart = 0
  #seen = 0
  /** weight of the scanned part, see `weigh` */
  #weight = 0
  readonly #maxWeight: number

  constructor(raw: Buffer, maxDepth: number, maxWeight: number) {
    this.#raw = raw
    this.#maxDepth = maxDepth
    this.#maxWeight = maxWeight
  }

  next(at: number): number {
    return this.#event(at, OF_EVENT, 0)
  }

  event(): ScannedBody | null {
    const end = this.#event(space(this.#raw, 0), OF_EVENT | API_KEY, 0)
    return this.#body(end, false, 1)
  }

  edit(): ScannedBody | null {
    return this.#body(this.#event(space(this.#raw, 0), OF_EDIT, 0), false, 1)
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
      // The names of an event's fields have no meaning at this level.
      fields |= field
      at = this.#value
      if (field === EVENTS) {
        if (raw[at] !== OPEN_BRACKET) return null
        this.#weight++
        at = space(raw, at + 1)
        for (;;) {
          if (count === maxEvents) return null
          at = this.#event(at, OF_EVENT, count)
          if (at === UNKNOWN) return null
          count++
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
    return count === 0 ? null : this.#body(at + 1, true, count)
  }

  lines(maxEvents: number): ScannedBody | null {
    const raw = this.#raw
    const end = raw.length - BATCH_TAIL.length
    // The weight of the frame; the commas are added below.
    this.#weight += 2 + COLON_WEIGHT
    let count = 0
    let at = space(raw, BATCH_HEAD.length)
    while (at < end) {
      if (count === maxEvents) return null
      const next = this.#event(at, OF_EVENT, count)
      // Unknown fields without `properties` would be lost, so the line is left to the parser, which refuses it.
      if (next === UNKNOWN || (this.fields & (OTHER | PROPERTIES)) === OTHER) return null
      const found = raw.indexOf(LINE_FEED, at)
      const lineEnd = found === -1 ? end : found
      at = space(raw, next)
      // An event must end in the line in which it begins, and nothing may follow it there.
      if (next > lineEnd || at < lineEnd) return null
      lineEnds[count++] = lineEnd
    }
    if (count === 0) return null
    this.#weight += count - 1
    const body = this.#body(raw.length, true, count)
    if (body) for (let i = 0; i < count - 1; i++) raw[lineEnds[i] ?? 0] = COMMA
    return body
  }

  #body(end: number, isBatch: boolean, count: number): ScannedBody | null {
    if (end === UNKNOWN || space(this.#raw, end) !== this.#raw.length) return null
    const hasOthers = (this.#seen & OTHER) !== 0
    // Only a body with unknown fields may have to be parsed; any other is stored unchanged.
    if (hasOthers && this.#weight > this.#maxWeight) return null
    const hasIds = (this.#seen & INSERT_ID) !== 0
    const hasContexts = (this.#seen & CONTEXT) !== 0
    const found = hasIds || count > 1 ? offsets.slice(0, count * OFFSETS_PER_EVENT) : null
    const mayNameVisitor = (this.#seen & VISITOR) !== 0
    const marks = { hasOthers, hasIds, hasContexts, mayNameVisitor, firstUser: offsets[2] ?? 0 }
    return new ScannedBody(isBatch, count, this.#apiKey, this.#keyStart, marks, found)
  }

  /** The offset after the event that begins at `at`; `known` has a bit for each field that has a meaning in it. */
  #event(at: number, known: number, index: number): number {
    const raw = this.#raw
    const start = at
    let user = 0
    let id = 0
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
          at = this.#text(at)
          break
        case DISTINCT_ID:
          user = at
          if (mayBeVisitor(raw, at + 1)) this.#seen |= VISITOR
          at = this.#text(at)
          break
        case INSERT_ID:
          if (raw[at] === NULL) {
            at = this.#skip(at)
          } else {
            id = at
            this.#seen |= INSERT_ID
            at = this.#text(at)
          }
          break
        case TIMESTAMP:
          at = this.#timestamp(at)
          break
        case PROPERTIES:
          if (raw[at] !== OPEN_BRACE && (raw[at] !== NULL || known === OF_EDIT)) return UNKNOWN
          at = this.#skip(at, this.#maxDepth)
          break
        case API_KEY:
          at = this.#key(at)
          break
        case SESSION_ID:
          at = raw[at] === NULL ? this.#skip(at) : this.#text(at)
          break
        case CONTEXT:
          this.#seen |= CONTEXT
          at = this.#context(at)
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
    const slot = index * OFFSETS_PER_EVENT
    offsets[slot] = start
    offsets[slot + 1] = at + 1
    offsets[slot + 2] = user
    offsets[slot + 3] = id
    const required = known === OF_EDIT ? PROPERTIES : EVENT | DISTINCT_ID
    return (fields & required) === required ? at + 1 : UNKNOWN
  }

  /** offset of the value that belongs to the name read last */
  #value = 0

  /** The field whose name begins at `at`; UNKNOWN if the name contains an escape. */
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
    for (const { name, field } of NAMES_OF_LENGTH[end - start] ?? NO_NAMES) {
      if (isAt(raw, start, name)) return field
    }
    return OTHER
  }

  /** A string of 1 to 255 bytes, which has at most 255 characters, because decoding never adds any. */
  #text(at: number): number {
    const raw = this.#raw
    if (raw[at] !== QUOTE) return UNKNOWN
    const start = at + 1
    const end = string(raw, start)
    if (end === UNKNOWN || end === start + 1 || end - start - 1 > MAX_NAME_BYTES) return UNKNOWN
    // Half a surrogate pair is an error. An escape that may be half a pair is left to the parser.
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
    if (raw[at] === NULL) return this.#skip(at)
    const end = digits(raw, at)
    const length = end - at
    // A fraction or an exponent is rejected by the caller, which expects a comma or a brace here.
    if (length === 0 || length > MAX_TIMESTAMP_DIGITS || (length > 1 && raw[at] === ZERO)) return UNKNOWN
    // It may be in seconds by mistake. The parser refuses that with an explanation.
    return (length === 9 || length === 10) && looksLikeSeconds(Number(raw.toString('latin1', at, end))) ? UNKNOWN : end
  }

  /** The offset after a context that has fields, all of them known, valid and present only once. */
  #context(at: number): number {
    const raw = this.#raw
    if (raw[at] !== OPEN_BRACE) return UNKNOWN
    let seen = 0
    do {
      this.#weight += 1 + COLON_WEIGHT
      at = space(raw, at + 1)
      const value = anyName(raw, at)
      if (value === UNKNOWN) return UNKNOWN
      const field = CONTEXT_NAMES.findIndex((name) => isAt(raw, at, name))
      if (field === -1 || (seen & (1 << field)) !== 0) return UNKNOWN
      seen |= 1 << field
      at = field === BOT ? this.#true(value) : this.#contextText(value, field)
      if (at === UNKNOWN) return UNKNOWN
      at = space(raw, at)
    } while (raw[at] === COMMA)
    return raw[at] === CLOSE_BRACE ? at + 1 : UNKNOWN
  }

  #true(at: number): number {
    return isAt(this.#raw, at, TRUE) ? at + TRUE.length : UNKNOWN
  }

  #contextText(at: number, field: number): number {
    const raw = this.#raw
    const end = this.#text(at)
    if (end === UNKNOWN) return UNKNOWN
    if (field === DEVICE && !DEVICE_TEXTS.some((device) => device.length === end - at && isAt(raw, at, device))) {
      return UNKNOWN
    }
    return field !== COUNTRY || (end - at === 4 && isCapital(raw[at + 1]) && isCapital(raw[at + 2])) ? end : UNKNOWN
  }

  /** The offset after any value; `maxDepth` is at most MAX_SCAN_DEPTH, the length of the stack. */
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
      // After a value, its container ends or continues.
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

/**
 * Scans the body of an edit, which has the new properties of an event; null if it is unknown.
 * @param raw valid UTF-8
 * @param maxDepth a body whose properties are nested deeper is unknown
 */
export function scanEdit(raw: Buffer, maxDepth: number): ScannedBody | null {
  return new Scan(raw, maxDepth, MAX_WEIGHT).edit()
}

/** Scans the events in a buffer that holds many of them, such as a chunk of a file to import. */
export class EventScan {
  readonly #scan: Scan

  /** @param raw must be valid UTF-8, which is not checked here */
  constructor(raw: Buffer) {
    this.#scan = new Scan(raw, MAX_SCAN_DEPTH, Number.POSITIVE_INFINITY)
  }

  /** The offset after the event that begins at `at`, or -1 if the scan cannot tell that it is valid. */
  findEnd(at: number): number {
    return this.#scan.next(at)
  }

  /** Whether the last event has a field that the contract does not define. */
  get hasOthers(): boolean {
    return (this.#scan.fields & OTHER) !== 0
  }

  get hasTimestamp(): boolean {
    return (this.#scan.fields & TIMESTAMP) !== 0
  }

  /** Whether the last event has properties, even if they are null. */
  get hasProperties(): boolean {
    return (this.#scan.fields & PROPERTIES) !== 0
  }
}
