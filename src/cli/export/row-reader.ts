import { isRetryable } from '../../client/retry.js'
import type { RowFormat } from '../../contract/formats.js'
import { COMMA, LINE_FEED, QUOTE } from '../../json/bytes.js'
import { memberText } from '../../json/spans.js'
import { cursorAfter } from '../../model/cursor.js'
import type { Part } from './part.js'
import type { Run, Runs } from './runs.js'

/** What is held in memory, twice; each piece costs two syncs of the disk. */
const PIECE_BYTES = 8 * 1024 * 1024
/** The first piece is small, so that progress is seen early; each further one is twice as large. */
const FIRST_PIECE_BYTES = 64 * 1024
const CARRIAGE_RETURN = 0x0d
const UUID_LENGTH = 36

/** Whole rows of an export. */
export interface Piece extends Omit<Part, 'bytes'> {
  bytes: Buffer
}

interface OpenRun extends Run {
  /** what was read of it and not given out */
  held: Buffer[]
  heldBytes: number
  rows: number
  hasNames: boolean
}

/** Reads an export of lines in pieces that end with a row. A run that breaks is opened again after its last whole row. */
export class RowReader {
  readonly #runs: Runs
  readonly #format: RowFormat
  #cursor: string | null
  #needsNames: boolean
  #run: OpenRun | null = null
  #pieceBytes = FIRST_PIECE_BYTES

  /** @param isFirst whether nothing was written before, so that CSV begins with the names of its columns */
  constructor(runs: Runs, format: RowFormat, cursor: string | null, isFirst: boolean) {
    this.#runs = runs
    this.#format = format
    this.#cursor = cursor
    this.#needsNames = isFirst
  }

  /** @throws TallyhouseError if the next piece cannot be read */
  async read(): Promise<Piece> {
    const piece = await this.#runs.retried(() => this.#attempt())
    this.#cursor = piece.next
    this.#needsNames = false
    this.#pieceBytes = Math.min(2 * this.#pieceBytes, PIECE_BYTES)
    return piece
  }

  async #attempt(): Promise<Piece> {
    this.#run ??= {
      ...(await this.#runs.open(this.#cursor, null)),
      held: [],
      heldBytes: 0,
      rows: 0,
      hasNames: this.#format === 'csv',
    }
    const run = this.#run
    try {
      for (let wanted = this.#pieceBytes; ; wanted *= 2) {
        const isOver = await fill(run, wanted)
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

  /** The whole rows before the last one, which may not be; null if there are none. */
  #cut(run: OpenRun): Piece | null {
    const bytes = Buffer.concat(run.held)
    const end = lastRowStart(bytes, this.#format)
    const namesEnd = run.hasNames ? bytes.indexOf(LINE_FEED) + 1 : 0
    if (end <= namesEnd) return null
    run.held = [bytes.subarray(end)]
    run.heldBytes = bytes.length - end
    const rows = this.#withoutNames(run, bytes.subarray(0, end))
    return { ...rows, next: cursorAfter(lastIdIn(rows.bytes, this.#format)), isLast: false, pending: run.pending }
  }

  #rest(run: OpenRun): Piece {
    this.#run = null
    const { next, pending } = run
    const bytes = Buffer.concat(run.held)
    if (bytes.length > 0 && bytes.at(-1) !== LINE_FEED) throw new Error('The export ended in the middle of a row.')
    const rows = this.#withoutNames(run, bytes)
    // Events that were pending when the run began may be stored by now.
    return { ...rows, next, isLast: pending === 0 || run.rows === 0, pending }
  }

  /** Every run of CSV begins with the names of the columns; the output has them once. */
  #withoutNames(run: OpenRun, bytes: Buffer): Pick<Piece, 'bytes' | 'rows'> {
    const namesEnd = run.hasNames ? bytes.indexOf(LINE_FEED) + 1 : 0
    run.hasNames = false
    const rows = countRows(bytes.subarray(namesEnd), this.#format)
    run.rows += rows
    return { bytes: this.#needsNames ? bytes : bytes.subarray(namesEnd), rows }
  }
}

/** Reads on until `wanted` bytes are held. @returns whether the run is over */
async function fill(run: OpenRun, wanted: number): Promise<boolean> {
  while (run.heldBytes < wanted) {
    const { done, value } = await run.chunks.next()
    if (done) return true
    run.held.push(Buffer.from(value.buffer, value.byteOffset, value.length))
    run.heldBytes += value.length
  }
  return false
}

/**
 * Whether a row starts at this place, which is behind a line feed. A row of CSV starts with a quoted UUID. In a quoted
 * cell, which may have line feeds too, a quote is followed by another one or ends the cell: what comes then is a
 * comma or the end of the line. So the two bytes tell, without the quotes before them being counted.
 */
function startsRow(bytes: Buffer, at: number, format: RowFormat): boolean {
  if (format !== 'csv') return at < bytes.length
  const after = bytes[at + 1]
  return bytes[at] === QUOTE && after !== undefined && after !== QUOTE && after !== COMMA && after !== CARRIAGE_RETURN
}

/** Where the last row starts; 0 if none after the first is known. */
function lastRowStart(bytes: Buffer, format: RowFormat): number {
  for (let end = bytes.length; end > 0; ) {
    const at = bytes.lastIndexOf(LINE_FEED, end - 1)
    if (at === -1) return 0
    if (startsRow(bytes, at + 1, format)) return at + 1
    end = at
  }
  return 0
}

/** The rows in bytes that start with one and end with one. */
function countRows(bytes: Buffer, format: RowFormat): number {
  if (bytes.length === 0) return 0
  let rows = 1
  for (let at = bytes.indexOf(LINE_FEED); at !== -1; at = bytes.indexOf(LINE_FEED, at + 1)) {
    if (startsRow(bytes, at + 1, format)) rows++
  }
  return rows
}

/** The eventId of the last of these rows. */
function lastIdIn(bytes: Buffer, format: RowFormat): string {
  const row = bytes.subarray(lastRowStart(bytes, format))
  // The first cell is the eventId in quotes.
  if (format === 'csv') return row.toString('latin1', 1, 1 + UUID_LENGTH)
  return JSON.parse(memberText(row.toString(), 'eventId') ?? 'null')
}
