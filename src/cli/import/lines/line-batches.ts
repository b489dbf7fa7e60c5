/**
 * This folder sends lines that are already events unchanged. The service scans each event anyway, so the command only
 * looks for line ends. A batch that the service refuses is parsed into rows (sort-lines.ts) and sent like any other
 * rows. If all lines were sent like that, an import on two cores would be a third slower, and take twice the CPU time
 * (1.84 instead of 0.84 s for a million events). See docs/decisions/013-command-http-client.md.
 */

import { LINE_FEED } from '../../../json/bytes.js'
import { RowFault, readRow } from '../../../vendors/row.js'
import { type BatchLimits, FIRST_BODY_BYTES } from '../batches.js'
import { type InputOffset, isBlank, LineReader, MAX_ROW_BYTES, tooLong } from '../lines.js'
import { type FirstTime, NativeRows, OWN_NAMES, type SourceOptions } from '../native-rows.js'

/** The body of a call: consecutive lines of the input, byte for byte. */
export interface LineBatch {
  /** from 0, over the whole input */
  index: number
  body: Buffer<ArrayBuffer>
  /** lines that are not blank; may be 0 */
  count: number
  /** the position of its first byte */
  start: InputOffset
  /** the position after its last byte */
  end: InputOffset
}

/**
 * Whether to send an input as lines, without scanning them here. The first row decides: if it must be rewritten, so
 * must the others. The result is the same for the same file.
 * @param beginning of the input's text
 */
export function isSentAsLines(beginning: Buffer, options: SourceOptions): boolean {
  const [first] = new LineReader({ offset: 0, line: 0 }).read(beginning)
  return first !== undefined && new NativeRows(options).has(first)
}

/** Cuts an input into batches at its line ends. */
export class LineBatches {
  /** chunks are copied immediately */
  readonly mayReuseChunks = true
  readonly #firstTime: FirstTime
  readonly #limits: BatchLimits
  readonly #spare: Buffer<ArrayBuffer>[] = []
  #index: number
  #body: Buffer<ArrayBuffer> = Buffer.allocUnsafeSlow(FIRST_BODY_BYTES)
  #length = 0
  /** bytes of the body up to the end of its last complete line */
  #whole = 0
  #count = 0
  #start: InputOffset
  #line: number

  /**
   * @param start of the first line
   * @param index of the first batch
   */
  constructor(firstTime: FirstTime, limits: BatchLimits, start: InputOffset, index: number) {
    this.#firstTime = firstTime
    this.#limits = limits
    this.#start = { offset: start.offset, line: start.line }
    this.#line = start.line
    this.#index = index
  }

  /** @throws Error if the input cannot be read to the end */
  async *read(chunks: AsyncIterable<Buffer>): AsyncGenerator<LineBatch> {
    for await (const chunk of chunks) yield* this.#take(chunk)
    if (this.#length > this.#whole) {
      if (this.#isFull(this.#length)) yield this.#close()
      this.#endLine(!isBlank(this.#body, this.#whole, this.#length), this.#length)
    }
    if (this.#length > 0) yield this.#close()
  }

  /** Returns the body of a batch that was sent, so that its buffer can be reused. */
  release({ body }: Pick<LineBatch, 'body'>): void {
    this.#spare.push(Buffer.from(body.buffer))
  }

  *#take(chunk: Buffer): Generator<LineBatch> {
    /** bytes before it are in the body already */
    let from = 0
    let at = 0
    for (;;) {
      const found = chunk.indexOf(LINE_FEED, at)
      if (found === -1) break
      const end = found + 1
      if (this.#isFull(this.#length + end - from)) {
        this.#copy(chunk, from, at)
        from = at
        yield this.#close()
      }
      if (!this.#firstTime.isKnown) {
        this.#copy(chunk, from, end)
        from = end
        this.#checkLastTime()
      }
      this.#endLine(this.#hasText(chunk, at, found), this.#length + end - from)
      at = end
      if (this.#count === this.#limits.events) {
        this.#copy(chunk, from, at)
        from = at
        yield this.#close()
      }
    }
    this.#copy(chunk, from, chunk.length)
    if (this.#length - this.#whole > MAX_ROW_BYTES) throw tooLong(this.#line + 1)
  }

  /** Whether the batch has no room for a line that would make the body this long. */
  #isFull(length: number): boolean {
    return this.#count > 0 && length > this.#limits.bytes
  }

  /** Whether the line that ends here has text. Its beginning may be in the body. */
  #hasText(chunk: Buffer, at: number, end: number): boolean {
    if ((chunk[at] ?? 0) > 0x20) return true
    return !isBlank(chunk, at, end) || !isBlank(this.#body, this.#whole, this.#length)
  }

  #endLine(hasText: boolean, end: number): void {
    this.#whole = end
    this.#line++
    if (hasText) this.#count++
  }

  /** Checks the time in the last line of the body, if there is one. */
  #checkLastTime(): void {
    try {
      const written = readRow(this.#body.subarray(this.#whole, this.#length)).readText(OWN_NAMES.timestamp)
      if (written !== undefined) this.#firstTime.see(written)
    } catch (error) {
      // The service will refuse the line.
      if (!(error instanceof RowFault)) throw error
    }
  }

  #copy(bytes: Buffer, start: number, end: number): void {
    const needed = this.#length + end - start
    if (needed > this.#body.length) this.#body = enlarged(this.#body, needed, this.#length)
    this.#length += bytes.copy(this.#body, this.#length, start, end)
  }

  /** Closes the batch. The next one begins with the incomplete line. */
  #close(): LineBatch {
    const [body, length, start] = [this.#body, this.#whole, this.#start]
    this.#start = { offset: start.offset + length, line: this.#line }
    const batch = {
      index: this.#index++,
      body: body.subarray(0, length),
      count: this.#count,
      start,
      end: this.#start,
    }
    const rest = this.#length - length
    const next = this.#spare.pop() ?? Buffer.allocUnsafeSlow(FIRST_BODY_BYTES)
    this.#body = rest > next.length ? enlarged(next, rest, 0) : next
    body.copy(this.#body, 0, length, this.#length)
    this.#length = rest
    this.#whole = 0
    this.#count = 0
    return batch
  }
}

function enlarged(body: Buffer<ArrayBuffer>, needed: number, length: number): Buffer<ArrayBuffer> {
  const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * body.length))
  body.copy(larger, 0, 0, length)
  return larger
}
