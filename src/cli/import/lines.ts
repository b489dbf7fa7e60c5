import { isUtf8 } from 'node:buffer'
import { LINE_FEED } from '../../json/bytes.js'

/** A place in the (decompressed) text of an input: what stands before it is done with. */
export interface InputOffset {
  /** bytes */
  offset: number
  /** lines that ended before it */
  line: number
}

/** A row of the input as its bytes. A reader gives the same object for every row: it holds until the next one. */
export interface Row {
  raw: Buffer
  start: number
  /** exclusive */
  end: number
  /** where it begins, from 1 */
  line: number
  /** whether its bytes were found to be valid UTF-8 */
  isUtf8: boolean
  /** where it is a row of a table: the text of a JSON object that holds its cells as strings */
  table: string | null
  /** why it cannot be read, or null */
  fault: string | null
  /** the place after it */
  next: InputOffset
}

/** Takes the chunks of an input apart into rows. */
export interface RowReader {
  /**
   * The rows that end in this chunk; go through all of them before the next call.
   * @throws Error where the input cannot be taken apart any further
   */
  read(chunk: Buffer): Iterable<Row>
  /**
   * The rows that the end of the input ends.
   * @throws Error where the input was cut off
   */
  end(): Iterable<Row>
}

/** No service takes a body of this size. */
export const MAX_ROW_BYTES = 256 * 1024 * 1024

const CARRIAGE_RETURN = 0x0d
const EMPTY = Buffer.alloc(0)

export function newRow(): Row {
  return {
    raw: EMPTY,
    start: 0,
    end: 0,
    line: 0,
    isUtf8: false,
    table: null,
    fault: null,
    next: { offset: 0, line: 0 },
  }
}

/** One row on each line; lines with nothing but white space are passed over. */
export class LineReader implements RowReader {
  readonly #row = newRow()
  #rest: Buffer = EMPTY
  /** of the first byte of `#rest` */
  #offset: number
  #line: number

  constructor({ offset, line }: InputOffset) {
    this.#offset = offset
    this.#line = line
  }

  *read(chunk: Buffer): Iterable<Row> {
    const raw = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    const linesEnd = raw.lastIndexOf(LINE_FEED) + 1
    yield* this.#rows(raw, linesEnd)
    this.#rest = raw.subarray(linesEnd)
    this.#offset += linesEnd
    if (this.#rest.length > MAX_ROW_BYTES) throw tooLong(this.#line + 1)
  }

  *end(): Iterable<Row> {
    yield* this.#rows(this.#rest, this.#rest.length)
  }

  *#rows(raw: Buffer, end: number): Iterable<Row> {
    const row = this.#row
    row.isUtf8 = isUtf8(raw.subarray(0, end))
    for (let at = 0; at < end; ) {
      const found = raw.indexOf(LINE_FEED, at)
      const lineEnd = found === -1 ? end : found
      row.raw = raw
      row.start = at
      row.end = raw[lineEnd - 1] === CARRIAGE_RETURN ? lineEnd - 1 : lineEnd
      at = lineEnd + 1
      row.line = ++this.#line
      row.next.line = row.line
      row.next.offset = this.#offset + Math.min(at, raw.length)
      if (!isBlank(raw, row.start, row.end)) yield row
    }
  }
}

export function tooLong(line: number): Error {
  return new Error(`The row that begins in line ${line} is longer than ${MAX_ROW_BYTES} bytes, or its end is missing.`)
}

function isBlank(raw: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if ((raw[at] ?? 0) > 0x20) return false
  return true
}
