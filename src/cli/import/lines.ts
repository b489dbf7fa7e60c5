import { isUtf8 } from 'node:buffer'
import { LINE_FEED } from '../../json/bytes.js'

/** A position between two rows in the (decompressed) text of an input. */
export interface InputOffset {
  /** bytes */
  offset: number
  /** lines that ended before it */
  line: number
}

/** A row of the input as bytes. A reader reuses one object for all rows, so it is valid until the next row. */
export interface Row {
  raw: Buffer
  start: number
  /** exclusive */
  end: number
  /** number of its first line, from 1 */
  line: number
  /** whether its bytes are known to be valid UTF-8 */
  isUtf8: boolean
  /**
   * for a row of a table, the text of a JSON object with its cells; cells are strings unless their column has a type
   */
  table: string | null
  /** columns of a table whose cell does not have the guessed type */
  misfits: string[]
  /** whether it is a row of a table with only empty cells */
  isEmpty: boolean
  /** why it cannot be read; null if it can */
  fault: string | null
  /** the position after it */
  next: InputOffset
}

/** Splits the chunks of an input into rows. */
export interface RowReader {
  /**
   * Yields the rows that end in this chunk. Consume all of them before the next call.
   * @throws Error if the input cannot be split any further
   */
  read(chunk: Buffer): Iterable<Row>
  /**
   * Yields the rows that end with the input.
   * @throws Error if the input is truncated
   */
  end(): Iterable<Row>
}

/** No service accepts a body of this size. */
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
    misfits: [],
    isEmpty: false,
    fault: null,
    next: { offset: 0, line: 0 },
  }
}

/** Reads one row per line. Lines of white space are skipped. */
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
    const areAllUtf8 = isUtf8(raw.subarray(0, end))
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
      // This must not depend on the chunk that the row is in, because a resent batch must have the same bytes.
      row.isUtf8 = areAllUtf8 || isUtf8(raw.subarray(row.start, row.end))
      if (!isBlank(raw, row.start, row.end)) yield row
    }
  }
}

/** The rows of an input cannot be read any further. The message does not name the input. */
export class RowsError extends Error {
  override readonly name = 'RowsError'
  /** whether the input seems to be cut short, like a partly copied file */
  readonly isTruncated: boolean

  constructor(message: string, isTruncated = false) {
    super(message)
    this.isTruncated = isTruncated
  }

  /** The same error, with the name of the input. */
  in(input: string): RowsError {
    return new RowsError(`${input}: ${this.message}`, this.isTruncated)
  }
}

export function tooLong(line: number): RowsError {
  return new RowsError(
    `The row that begins on line ${line} is longer than ${MAX_ROW_BYTES} bytes, or its end is missing.`,
  )
}

/** Whether there is only white space. */
export function isBlank(raw: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if ((raw[at] ?? 0) > 0x20) return false
  return true
}
