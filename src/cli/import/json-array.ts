import { isUtf8 } from 'node:buffer'
import { CLOSE_BRACKET, COMMA, LINE_FEED, OPEN_BRACKET } from '../../json/bytes.js'
import { valueEnd } from '../../json/tokens.js'
import { type InputOffset, MAX_ROW_BYTES, newRow, type Row, type RowReader, RowsError, tooLong } from './lines.js'

/** An incomplete element up to this size is scanned again with each chunk. */
const SCANNED_AGAIN_BYTES = 1024 * 1024

/** What must come next, apart from white space. */
type Expected = 'array' | 'element' | 'comma' | 'nothing'

/**
 * Reads the elements of a JSON array as rows. Elements are found by brackets and strings; whether they are valid JSON
 * is checked later. An element may span any number of lines and chunks.
 */
export class ArrayReader implements RowReader {
  readonly #row = newRow()
  #expected: Expected
  /** bytes read since the last element */
  #held: Buffer[] = []
  #heldBytes = 0
  /** number of held bytes at which the next scan starts */
  #neededBytes = 0
  /** of the first held byte */
  #offset: number
  /** line ends before the next element */
  #line: number

  constructor({ offset, line }: InputOffset) {
    this.#offset = offset
    this.#line = line
    this.#expected = offset === 0 ? 'array' : 'comma'
  }

  *read(chunk: Buffer): Iterable<Row> {
    this.#held.push(chunk)
    this.#heldBytes += chunk.length
    if (this.#heldBytes < this.#neededBytes) return
    yield* this.#scan()
    if (this.#heldBytes > MAX_ROW_BYTES) throw tooLong(this.#line + 1)
    // A large element is scanned again only when its bytes have doubled, which keeps the time linear.
    this.#neededBytes = this.#heldBytes < SCANNED_AGAIN_BYTES ? 0 : Math.min(2 * this.#heldBytes, MAX_ROW_BYTES + 1)
  }

  /** @throws RowsError if the array is not closed */
  *end(): Iterable<Row> {
    yield* this.#scan()
    if (this.#expected !== 'nothing') throw new RowsError('The JSON array has no end.', true)
  }

  /** Yields the elements that end in the held bytes, and keeps the rest. */
  *#scan(): Iterable<Row> {
    const [first, ...more] = this.#held
    if (!first) return
    const raw = more.length === 0 ? first : Buffer.concat(this.#held)
    let at = 0
    for (;;) {
      at = this.#toElement(raw, at)
      // A value at the very end may continue in the next bytes; an element is complete once a comma or bracket
      // follows.
      const end = at === raw.length ? at : valueEnd(raw, at)
      if (end === raw.length) break
      yield this.#found(raw, at, end)
      at = end
    }
    this.#held = at === raw.length ? [] : [raw.subarray(at)]
    this.#heldBytes = raw.length - at
    this.#offset += at
  }

  #found(raw: Buffer, start: number, end: number): Row {
    this.#expected = 'comma'
    const line = this.#line + 1
    for (let at = raw.indexOf(LINE_FEED, start); at !== -1 && at < end; at = raw.indexOf(LINE_FEED, at + 1))
      this.#line++
    const next = { offset: this.#offset + end, line: this.#line }
    return Object.assign(this.#row, { raw, start, end, line, isUtf8: isUtf8(raw.subarray(start, end)), next })
  }

  /** @returns the offset of the next element, or the end of the bytes */
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
      throw new RowsError(
        `Line ${this.#line + 1} of the JSON array has ${JSON.stringify(String.fromCharCode(byte))} where ${wanted} was expected.`,
      )
    }
  }
}
