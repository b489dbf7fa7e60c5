import { isAscii } from 'node:buffer'
import { COLON_WEIGHT } from './complexity.js'
import { anyName, scalar, space, string, UNKNOWN } from './tokens.js'

// Declared here, not in bytes.ts, which explains why.
const BACKSLASH = 0x5c
const CLOSE_BRACE = 0x7d
const CLOSE_BRACKET = 0x5d
const COLON = 0x3a
const COMMA = 0x2c
const FALSE = 0x66
const NULL = 0x6e
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const QUOTE = 0x22
const TRUE = 0x74

/**
 * Numbers in the slot of a value: the offset of its name, 0 if it has none; its start and end; and the slot of the
 * value after it. The slots of the values in a container are between its own slot and that one.
 */
const SLOT_SIZE = 4
const START = 1
const END = 2
const NEXT = 3
const NONE = -1

/** How many values the scratch has room for at first. */
const FIRST_VALUES = 4096
/** The scratch is not kept if it has grown to more values than this. */
const KEPT_VALUES = 64 * 1024
/** The bytes of a piece of a scan: some 1 ms. */
const PIECE_BYTES = 128 * 1024

/** A valid JSON text and the slots of its values. */
interface Scanned {
  raw: Buffer
  /** the whole text if it is ASCII; otherwise parts are decoded when they are needed */
  text: string | null
  /** not a typed array: the memory of many typed arrays makes V8 mark its whole heap */
  slots: number[]
  hasEscapedNames: boolean
  weight: number
  depth: number
}

/**
 * Validates a JSON text and locates all its values in one pass. JSON.parse would lose the spelling of a value (`1.0`,
 * `1e400`, integers beyond 2^53, escapes) and the order of the names, but properties are stored as they were sent.
 * @param raw valid UTF-8
 * @param maxWeight of the text, as `weigh` counts it
 * @returns null if it is not valid JSON, or heavier
 */
export function readJson(raw: Buffer, maxWeight = Number.POSITIVE_INFINITY): JsonValue | null {
  const scanned = new Scan(raw, maxWeight).all()
  return scanned && new JsonValue(scanned, 0)
}

/**
 * Like `readJson`, but in pieces: a body of 9 MB takes 50 ms.
 * @param takeTurn called between the pieces with the weight of the text so far; returns when to continue, null for
 *   immediately. If it throws, reading ends
 */
export async function readJsonInTurns(
  raw: Buffer,
  maxWeight: number,
  takeTurn: (weight: number) => Promise<void> | null,
): Promise<JsonValue | null> {
  const scan = new Scan(raw, maxWeight)
  for (let until = PIECE_BYTES; until < raw.length && scan.readUntil(until); until += PIECE_BYTES) {
    const turn = takeTurn(scan.weight)
    if (turn) await turn
  }
  const scanned = scan.all()
  return scanned && new JsonValue(scanned, 0)
}

/** Like `readJson`, for a string. @throws TypeError if it is not valid JSON */
export function readText(text: string): JsonValue {
  const raw = Buffer.from(text)
  const scanned = new Scan(raw, Number.POSITIVE_INFINITY).all(raw.length === text.length ? text : undefined)
  if (!scanned) throw new TypeError('The text is not valid JSON.')
  return new JsonValue(scanned, 0)
}

/**
 * The value that JSON.parse would return, made piece by piece.
 * @param levels how far down a piece may be; a batch has its list within an object
 */
export async function makeValueInTurns(
  json: JsonValue,
  takeTurn: () => Promise<void> | null,
  levels = 2,
): Promise<unknown> {
  const turn = takeTurn()
  if (turn) await turn
  const isWhole = levels === 0 || json.end - json.start <= PIECE_BYTES
  if (!isWhole && json.isArray) {
    const values: unknown[] = []
    for (const element of json.elements()) values.push(await makeValueInTurns(element, takeTurn, levels - 1))
    return values
  }
  if (!isWhole && json.isObject) {
    const members: [string, unknown][] = []
    for (const [name, member] of json.members()) {
      members.push([name, await makeValueInTurns(member, takeTurn, levels - 1)])
    }
    return Object.fromEntries(members)
  }
  return json.value
}

/** A lazily decoded value of a JSON text. */
export class JsonValue {
  readonly #in: Scanned
  readonly #at: number

  /** only for `readJson` */
  constructor(scanned: Scanned, at: number) {
    this.#in = scanned
    this.#at = at
  }

  get isString(): boolean {
    return this.#first === QUOTE
  }

  get isNull(): boolean {
    return this.#first === NULL
  }

  get isObject(): boolean {
    return this.#first === OPEN_BRACE
  }

  get isArray(): boolean {
    return this.#first === OPEN_BRACKET
  }

  /** The weight of the whole text that the value is in, as `weigh` counts it. */
  get textWeight(): number {
    return this.#in.weight
  }

  /** The levels of objects and arrays in the whole text that the value is in. */
  get textDepth(): number {
    return this.#in.depth
  }

  /** The number of values in the whole text that the value is in. */
  get textCount(): number {
    return this.#in.slots.length / SLOT_SIZE
  }

  /** Offset of its first byte in the whole text. */
  get start(): number {
    return this.#in.slots[this.#at + START] as number
  }

  /** Offset of the byte after it in the whole text. */
  get end(): number {
    return this.#in.slots[this.#at + END] as number
  }

  /** The exact text. */
  get text(): string {
    return slice(this.#in, this.start, this.end)
  }

  /** The value that JSON.parse would return. */
  get value(): unknown {
    switch (this.#first) {
      case QUOTE:
        return decodeString(this.#in, this.start, this.end)
      case TRUE:
        return true
      case FALSE:
        return false
      case NULL:
        return null
      default:
        return JSON.parse(this.text)
    }
  }

  /** The value of an object's member; undefined if it has none. The last of duplicates wins, as in JSON.parse. */
  member(name: string): JsonValue | undefined {
    const at = this.isObject ? this.#find(name) : NONE
    return at === NONE ? undefined : new JsonValue(this.#in, at)
  }

  /** The members of an object by name, in the order in which the names first appear. The last of duplicates wins. */
  members(): Map<string, JsonValue> {
    const { slots } = this.#in
    const found = new Map<string, JsonValue>()
    if (!this.isObject) return found
    for (let at = this.#at + SLOT_SIZE; at < this.#next; at = slots[at + NEXT] as number) {
      found.set(this.#nameAt(at), new JsonValue(this.#in, at))
    }
    return found
  }

  /**
   * The text of an object without some of its members, and without space around the names and values of the others.
   * @param isCut by the member's name, and the text of its value
   */
  textWithout(isCut: (name: string, text: string) => boolean): string {
    const { raw, slots } = this.#in
    let kept = ''
    for (let at = this.#at + SLOT_SIZE; at < this.#next; at = slots[at + NEXT] as number) {
      const text = slice(this.#in, slots[at + START] as number, slots[at + END] as number)
      if (isCut(this.#nameAt(at), text)) continue
      const start = slots[at] as number
      kept += `${kept && ','}${slice(this.#in, start, string(raw, start + 1))}:${text}`
    }
    return `{${kept}}`
  }

  /**
   * The text of an object without some of its members; everything else stays byte for byte.
   * @param isCut by the member's name, and the text of its value
   */
  without(isCut: (name: string, text: string) => boolean): string {
    const { slots } = this.#in
    let kept = ''
    /** offset up to which the text has been handled */
    let from = this.start
    let isFirst = true
    for (let at = this.#at + SLOT_SIZE; at < this.#next; ) {
      const next = slots[at + NEXT] as number
      const end = slots[at + END] as number
      if (isCut(this.#nameAt(at), slice(this.#in, slots[at + START] as number, end))) {
        const isLast = next === this.#next
        kept += slice(this.#in, from, slots[at] as number)
        // A member goes with the comma after it; the last one with the comma before it.
        if (isLast && !isFirst) kept = kept.replace(/,\s*$/, '')
        from = isLast ? end : (slots[next] as number)
      } else {
        isFirst = false
      }
      at = next
    }
    return kept + slice(this.#in, from, this.end)
  }

  /** The first element of an array; undefined if it has none. */
  get first(): JsonValue | undefined {
    const at = this.#at + SLOT_SIZE
    return this.isArray && at < this.#next ? new JsonValue(this.#in, at) : undefined
  }

  /** The elements of an array. */
  elements(): JsonValue[] {
    const { slots } = this.#in
    const found: JsonValue[] = []
    if (!this.isArray) return found
    for (let at = this.#at + SLOT_SIZE; at < this.#next; at = slots[at + NEXT] as number) {
      found.push(new JsonValue(this.#in, at))
    }
    return found
  }

  /**
   * The values at any depth in it that are no objects or arrays, itself if it is one of them, each with the name of the
   * member that it is in, undefined if it is in none. The elements of a member's array are in that member.
   */
  *leaves(): Generator<[name: string | undefined, value: JsonValue]> {
    /** the slots of the arrays and objects around the current value, and of the members that these are in */
    const around: { next: number; named: number }[] = []
    for (let at = this.#at; at < this.#next; at += SLOT_SIZE) {
      while (at >= (around.at(-1)?.next ?? at + 1)) around.pop()
      const named = this.#in.slots[at] === 0 ? (around.at(-1)?.named ?? NONE) : at
      const value = new JsonValue(this.#in, at)
      if (value.isObject || value.isArray) around.push({ next: value.#next, named })
      else yield [named === NONE ? undefined : this.#nameAt(named), value]
    }
  }

  get #next(): number {
    return this.#in.slots[this.#at + NEXT] as number
  }

  get #first(): number | undefined {
    return this.#in.raw[this.start]
  }

  #find(name: string): number {
    const { raw, text, slots, hasEscapedNames } = this.#in
    const next = this.#next
    const { length } = name
    const maySpellOtherwise = hasEscapedNames || (text === null && Buffer.byteLength(name) > length)
    let found = NONE
    for (let at = this.#at + SLOT_SIZE; at < next; at = slots[at + NEXT] as number) {
      const start = (slots[at] as number) + 1
      if (raw[start + length] === QUOTE && isSame(raw, start, name)) found = at
      else if (maySpellOtherwise && this.#nameAt(at) === name) found = at
    }
    return found
  }

  #nameAt(at: number): string {
    const start = this.#in.slots[at] as number
    return decodeString(this.#in, start, string(this.#in.raw, start + 1))
  }
}

function slice({ text, raw }: Scanned, start: number, end: number): string {
  return text === null ? raw.toString('utf8', start, end) : text.slice(start, end)
}

/** The value of a string. */
function decodeString(scanned: Scanned, start: number, end: number): string {
  const inner = slice(scanned, start + 1, end - 1)
  return inner.includes('\\') ? JSON.parse(slice(scanned, start, end)) : inner
}

/** Whether the bytes at `start` are the name itself; false for a name that is not ASCII or needs escapes. */
function isSame(raw: Buffer, start: number, name: string): boolean {
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i)
    if (raw[start + i] !== code || code === QUOTE || code === BACKSLASH) return false
  }
  return true
}

/** For the next scan; an interrupted scan keeps its own. */
let scratch: Int32Array | null = null

/** One pass over a text. */
class Scan {
  readonly #raw: Buffer
  readonly #maxWeight: number
  #weight = 0
  #depth = 0
  #hasEscapedNames = false
  #slots: Int32Array
  /** the end of the slots; UNKNOWN if the text is not valid JSON, or too heavy */
  #end = 0
  /** slot of the enclosing container; while that is open, its END field holds the slot of its own container */
  #open = NONE
  #level = 0
  /** offsets of the next value, and of its name */
  #at: number
  #name = 0
  #isOver = false

  constructor(raw: Buffer, maxWeight: number) {
    this.#raw = raw
    this.#maxWeight = maxWeight
    this.#slots = scratch ?? new Int32Array(FIRST_VALUES * SLOT_SIZE)
    scratch = null
    this.#at = space(raw, 0)
  }

  get weight(): number {
    return this.#weight
  }

  /** Reads the rest. @param ascii the whole text, if it is known to be ASCII */
  all(ascii?: string): Scanned | null {
    const raw = this.#raw
    if (!this.#isOver) this.readUntil(Number.POSITIVE_INFINITY)
    const slots = this.#end === UNKNOWN ? null : copySlots(this.#slots, this.#end)
    if (this.#slots.length <= KEPT_VALUES * SLOT_SIZE) scratch = this.#slots
    if (!slots) return null
    const text = ascii ?? (isAscii(raw) ? raw.toString('latin1') : null)
    const hasEscapedNames = this.#hasEscapedNames
    return { raw, text, slots, hasEscapedNames, weight: this.#weight, depth: this.#depth }
  }

  /** Reads until the first value that begins at `until` or later. @returns whether there is one */
  readUntil(until: number): boolean {
    const raw = this.#raw
    let slots = this.#slots
    let end = this.#end
    let open = this.#open
    let level = this.#level
    let at = this.#at
    let name = this.#name
    while (at < until) {
      const value = end
      end += SLOT_SIZE
      if (end > slots.length) slots = this.#growSlots()
      slots[value] = name
      slots[value + START] = at
      const first = raw[at]
      if (first === OPEN_BRACE || first === OPEN_BRACKET) {
        if (++this.#weight > this.#maxWeight) return this.#finish(UNKNOWN)
        if (level === this.#depth) this.#depth++
        const close = first === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET
        at = space(raw, at + 1)
        if (raw[at] !== close) {
          level++
          slots[value + END] = open
          open = value
          name = close === CLOSE_BRACE ? at : 0
          if (name !== 0) at = this.#afterName(at)
          if (at === UNKNOWN) return this.#finish(UNKNOWN)
          continue
        }
        at++
      } else {
        at = scalar(raw, at)
        if (at === UNKNOWN) return this.#finish(UNKNOWN)
      }
      slots[value + END] = at
      slots[value + NEXT] = end
      // After a value, its container ends or continues.
      for (;;) {
        at = space(raw, at)
        if (open === NONE) {
          return this.#finish(at === raw.length && this.#weight <= this.#maxWeight ? end : UNKNOWN)
        }
        const close = raw[slots[open + START] as number] === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET
        if (raw[at] === COMMA) {
          if (++this.#weight > this.#maxWeight) return this.#finish(UNKNOWN)
          at = space(raw, at + 1)
          name = close === CLOSE_BRACE ? at : 0
          if (name !== 0) at = this.#afterName(at)
          if (at === UNKNOWN) return this.#finish(UNKNOWN)
          break
        }
        if (raw[at] !== close) return this.#finish(UNKNOWN)
        at++
        level--
        const outer = slots[open + END] as number
        slots[open + END] = at
        slots[open + NEXT] = end
        open = outer
      }
    }
    this.#end = end
    this.#open = open
    this.#level = level
    this.#at = at
    this.#name = name
    return true
  }

  #finish(end: number): false {
    this.#end = end
    this.#isOver = true
    return false
  }

  #growSlots(): Int32Array {
    const larger = new Int32Array(this.#slots.length * 2)
    larger.set(this.#slots)
    this.#slots = larger
    return larger
  }

  /** The offset of the value whose name begins at `at`. */
  #afterName(at: number): number {
    const raw = this.#raw
    this.#weight += COLON_WEIGHT
    if (raw[at] !== QUOTE) return UNKNOWN
    for (let end = at + 1; ; end++) {
      const byte = raw[end]
      if (byte === QUOTE) {
        at = space(raw, end + 1)
        return raw[at] === COLON ? space(raw, at + 1) : UNKNOWN
      }
      if (byte === BACKSLASH) {
        this.#hasEscapedNames = true
        return anyName(raw, at)
      }
      if (byte === undefined || byte < 0x20) return UNKNOWN
    }
  }
}

function copySlots(slots: Int32Array, end: number): number[] {
  const copy = new Array<number>(end)
  for (let i = 0; i < end; i++) copy[i] = slots[i] as number
  return copy
}
