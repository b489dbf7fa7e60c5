import { isUtf8 } from 'node:buffer'
import { type InputOffset, MAX_ROW_BYTES, newRow, type Row, type RowReader, tooLong } from './lines.js'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const LINE_FEED = 0x0a
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const EMPTY = Buffer.alloc(0)

/** What must come next, apart from white space. */
type Expected = 'array' | 'element' | 'comma' | 'nothing'

/**
 * Reads the elements of a JSON array as rows. They are found by their brackets and strings; whether they are valid JSON is
 * checked later. An element may span any number of lines and chunks.
 */
export class ArrayReader implements RowReader {
  readonly #row = newRow()
  #expected: Expected
  #rest: Buffer = EMPTY
  /** of the first byte of `#rest` */
  #offset: number
  /** line ends before the current place */
  #line: number
  /** of the element that `#rest` begins with: the bytes scanned so far, and the scanner's state after them */
  #seen = 0
  #depth = 0
  #isInString = false
  #isEscaped = false
  #firstLine = 0

  constructor({ offset, line }: InputOffset) {
    this.#offset = offset
    this.#line = line
    this.#expected = offset === 0 ? 'array' : 'comma'
  }

  *read(chunk: Buffer): Iterable<Row> {
    const raw = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    for (;;) {
      if (this.#seen === 0) {
        at = this.#toElement(raw, at)
        if (at === raw.length) break
        this.#firstLine = this.#line + 1
      }
      const end = this.#elementEnd(raw, at + this.#seen)
      if (end === -1) break
      yield this.#found(raw, at, end)
      at = end
    }
    this.#rest = raw.subarray(at)
    this.#seen = this.#rest.length
    this.#offset += at
    if (this.#rest.length > MAX_ROW_BYTES) throw tooLong(this.#firstLine)
  }

  /** @throws Error if the array is not closed */
  end(): Iterable<Row> {
    if (this.#expected !== 'nothing') throw new Error('The JSON array has no end. The input may be truncated.')
    return []
  }

  #found(raw: Buffer, start: number, end: number): Row {
    this.#seen = 0
    this.#expected = 'comma'
    const next = { offset: this.#offset + end, line: this.#line }
    return Object.assign(this.#row, {
      raw,
      start,
      end,
      line: this.#firstLine,
      isUtf8: isUtf8(raw.subarray(start, end)),
      next,
    })
  }

  /** @returns the place of the next element, or the end of the bytes */
  #toElement(raw: Buffer, from: number): number {
    for (let at = from; at < raw.length; at++) {
      const byte = raw[at] ?? 0
      if (byte === LINE_FEED) this.#line++
      if (byte <= 0x20) continue
      if (this.#expected === 'element' && byte !== CLOSE_BRACKET) return at
      this.#step(byte)
    }
    return raw.length
  }

  #step(byte: number): void {
    if (this.#expected === 'array' && byte === OPEN_BRACKET) this.#expected = 'element'
    else if (this.#expected === 'comma' && byte === COMMA) this.#expected = 'element'
    else if (this.#expected !== 'array' && this.#expected !== 'nothing' && byte === CLOSE_BRACKET)
      this.#expected = 'nothing'
    else {
      const wanted = { array: '[', element: 'an element', comma: ', or ]', nothing: 'the end' }[this.#expected]
      throw new Error(
        `Line ${this.#line + 1} of the JSON array has ${JSON.stringify(String.fromCharCode(byte))} where ${wanted} was expected.`,
      )
    }
  }

  /** Continues to scan the current element. @returns the place after it, or -1 if its end is not in these bytes */
  #elementEnd(raw: Buffer, from: number): number {
    for (let at = from; at < raw.length; at++) {
      const byte = raw[at]
      if (byte === LINE_FEED) this.#line++
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (byte === BACKSLASH) this.#isEscaped = true
        else if (byte === QUOTE) {
          this.#isInString = false
          if (this.#depth === 0) return at + 1
        }
        continue
      }
      switch (byte) {
        case QUOTE:
          this.#isInString = true
          break
        case OPEN_BRACE:
        case OPEN_BRACKET:
          this.#depth++
          break
        case CLOSE_BRACE:
        case CLOSE_BRACKET:
          if (this.#depth === 0) return at
          if (--this.#depth === 0) return at + 1
          break
        case COMMA:
          if (this.#depth === 0) return at
      }
    }
    return -1
  }
}
