import { isRetryable } from '../../client/retry.js'
import type { RowFormat } from '../../contract/formats.js'
import { COMMA, LINE_FEED, QUOTE } from '../../json/bytes.js'
import { memberText } from '../../json/texts.js'
import { cursorAfter } from '../../model/cursor.js'
import type { Blocks } from '../http/blocks.js'
import type { Part } from './part.js'
import type { Run, Runs } from './runs.js'

const CARRIAGE_RETURN = 0x0d
const UUID_LENGTH = 36
const EMPTY = Buffer.alloc(0)

/** A sequence of whole rows of an export. */
export interface Piece extends Omit<Part, 'bytes'> {
  /** to be passed to `Blocks.release` once they are written */
  bytes: Buffer
}

interface OpenRun extends Run {
  /** bytes that were read and not returned yet */
  held: Buffer
  rows: number
  hasNames: boolean
}

/**
 * Reads an export in a line format, in pieces of whole rows. A run that breaks off is opened again after its last
 * whole row.
 */
export class RowReader {
  readonly #runs: Runs
  readonly #blocks: Blocks
  readonly #format: RowFormat
  #cursor: string | null
  #needsNames: boolean
  #run: OpenRun | null = null

  /**
   * @param blocks memory that the responses are read into
   * @param isFirst whether nothing was written before, so that CSV needs its header
   */
  constructor(runs: Runs, blocks: Blocks, format: RowFormat, cursor: string | null, isFirst: boolean) {
    this.#runs = runs
    this.#blocks = blocks
    this.#format = format
    this.#cursor = cursor
    this.#needsNames = isFirst
  }

  /** @throws TallyhouseError if the next piece cannot be read */
  async read(): Promise<Piece> {
    const piece = await this.#runs.retried(() => this.#attempt())
    this.#cursor = piece.next
    this.#needsNames = false
    return piece
  }

  async #attempt(): Promise<Piece> {
    this.#run ??= {
      ...(await this.#runs.open(this.#cursor, null)),
      held: EMPTY,
      rows: 0,
      hasNames: this.#format === 'csv',
    }
    const run = this.#run
    try {
      for (;;) {
        const isOver = await this.#readOn(run)
        const piece = isOver ? this.#rest(run) : this.#cut(run)
        if (piece) return piece
      }
    } catch (error) {
      this.#run = null
      const piece = isRetryable(error) ? this.#cut(run) : null
      if (piece) return piece
      throw error
    }
  }

  /**
   * Reads at least as much as is held, so that a long row is not searched again for each chunk.
   * @returns whether the run is over
   */
  async #readOn(run: OpenRun): Promise<boolean> {
    const held = run.held.length
    do {
      const { done, value } = await run.chunks.next()
      if (done) return true
      run.held = this.#blocks.join(run.held, Buffer.from(value.buffer, value.byteOffset, value.length))
    } while (run.held.length < 2 * held)
    return false
  }

  /** Takes all rows but the last, which may be incomplete; null if there are none. */
  #cut(run: OpenRun): Piece | null {
    const bytes = run.held
    const end = lastRowStart(bytes, this.#format)
    const namesEnd = run.hasNames ? bytes.indexOf(LINE_FEED) + 1 : 0
    if (end <= namesEnd) return null
    // Copied, because the block is reused once the piece is written.
    run.held = Buffer.from(bytes.subarray(end))
    const rows = this.#withoutNames(run, bytes.subarray(0, end))
    return { ...rows, next: cursorAfter(lastIdIn(rows.bytes, this.#format)), isLast: false, pending: run.pending }
  }

  #rest(run: OpenRun): Piece {
    this.#run = null
    const { next, pending } = run
    const bytes = run.held
    if (bytes.length > 0 && bytes.at(-1) !== LINE_FEED) throw new Error('The export ended in the middle of a row.')
    const rows = this.#withoutNames(run, bytes)
    // Events that were pending when the run began may have been stored since.
    return { ...rows, next, isLast: pending === 0 || run.rows === 0, pending }
  }

  /** Removes the CSV header that every run begins with, because the output has it already. */
  #withoutNames(run: OpenRun, bytes: Buffer): Pick<Piece, 'bytes' | 'rows'> {
    const namesEnd = run.hasNames ? bytes.indexOf(LINE_FEED) + 1 : 0
    run.hasNames = false
    const rows = countRows(bytes.subarray(namesEnd), this.#format)
    run.rows += rows
    return { bytes: this.#needsNames ? bytes : bytes.subarray(namesEnd), rows }
  }
}

/**
 * Whether a row starts at `at`, which follows a line feed. A row of CSV starts with a quoted UUID. Inside a quoted
 * cell, which may contain line feeds, a quote is doubled, or it ends the cell and a comma or line end follows. So the
 * byte after a quote decides, and earlier quotes need not be counted.
 */
function startsRow(bytes: Buffer, at: number, format: RowFormat): boolean {
  if (format !== 'csv') return at < bytes.length
  const after = bytes[at + 1]
  return bytes[at] === QUOTE && after !== undefined && after !== QUOTE && after !== COMMA && after !== CARRIAGE_RETURN
}

/** Finds the start of the last row; 0 if only the first is known. */
function lastRowStart(bytes: Buffer, format: RowFormat): number {
  for (let end = bytes.length; end > 0; ) {
    const at = bytes.lastIndexOf(LINE_FEED, end - 1)
    if (at === -1) return 0
    if (startsRow(bytes, at + 1, format)) return at + 1
    end = at
  }
  return 0
}

/** Counts the rows in bytes that hold only whole rows. */
function countRows(bytes: Buffer, format: RowFormat): number {
  if (bytes.length === 0) return 0
  let rows = 1
  for (let at = bytes.indexOf(LINE_FEED); at !== -1; at = bytes.indexOf(LINE_FEED, at + 1)) {
    if (startsRow(bytes, at + 1, format)) rows++
  }
  return rows
}

/** Reads the eventId of the last of these rows. */
function lastIdIn(bytes: Buffer, format: RowFormat): string {
  const row = bytes.subarray(lastRowStart(bytes, format))
  // The first cell is the eventId in quotes.
  if (format === 'csv') return row.toString('latin1', 1, 1 + UUID_LENGTH)
  return JSON.parse(memberText(row.toString(), 'eventId') ?? 'null')
}
