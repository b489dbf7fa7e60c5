import { COMMA } from '../../json/bytes.js'
import { BATCH_HEAD, BATCH_TAIL } from '../../model/scanned-body.js'
import type { EventSource } from './event-source.js'
import type { InputOffset, Row, RowReader } from './lines.js'
import type { PeopleChange, VendorOutcome } from './vendor-rows.js'

/** Limits of a batch. With the same limits, an input is always cut into the same batches. */
export interface BatchLimits {
  events: number
  /** of the body; a larger event gets its own batch */
  bytes: number
}

export interface Reject {
  line: number
  reason: string
  /** the beginning of the row */
  row: string
}

/** Consecutive rows: a body with their events, and the rows that are not events. */
export interface Batch {
  /** from 0, over the whole input */
  index: number
  body: Buffer<ArrayBuffer>
  /** events in the body; may be 0 */
  count: number
  /** the line of each event */
  lines: number[]
  rejects: Reject[]
  /** whether all of its events are known to have an `insert_id` */
  haveIds: boolean
  /** changes of profiles and aliases from its rows, in order */
  people: (PeopleChange & { line: number; hasEvent: boolean })[]
  /** rows that are not meant to be events */
  skipped: number
  /** number of cells that do not match the guessed type of their column, by column */
  misfits: Record<string, number>
  /** the offset after its last row */
  end: InputOffset
}

export const FIRST_BODY_BYTES = 256 * 1024
const MAX_REJECTS = 1000
const MAX_CHANGES = 1000
/** Rows without an event may have an alias each. */
const MAX_ROWS_WITHOUT_EVENT = 10_000
const SHOWN_ROW_BYTES = 2000

/** Turns bytes into rows, and rows into events. */
interface RowParts {
  reader: RowReader
  source: EventSource
}

/** Collects events into the bodies of batch calls. Consecutive rows that are sent verbatim are copied together. */
export class Batches {
  /** rows may refer to earlier chunks, so the chunks must stay valid */
  readonly mayReuseChunks = false
  readonly #reader: RowReader
  readonly #source: EventSource
  readonly #limits: BatchLimits
  readonly #spare: Buffer<ArrayBuffer>[] = []
  #index: number
  #body: Buffer<ArrayBuffer> = Buffer.allocUnsafeSlow(FIRST_BODY_BYTES)
  #length = 0
  #lines: number[] = []
  #rejects: Reject[] = []
  #haveIds = true
  #people: Batch['people'] = []
  /** number and length of the changes among `#people`, without aliases */
  #changes = 0
  #changesLength = 0
  #rowsWithoutEvent = 0
  #skipped = 0
  #misfits = emptyCounts()
  #end: InputOffset
  /** consecutive rows to copy, one byte apart */
  #run: { raw: Buffer; start: number; end: number } | null = null

  /**
   * @param start where the first row begins
   * @param index of the first batch
   */
  constructor({ reader, source }: RowParts, limits: BatchLimits, start: InputOffset, index: number) {
    this.#reader = reader
    this.#source = source
    this.#limits = limits
    this.#end = { offset: start.offset, line: start.line }
    this.#index = index
    this.#begin()
  }

  /** @throws Error if the input cannot be read to the end */
  async *read(chunks: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Batch> {
    for await (const chunk of chunks) yield* this.#take(this.#reader.read(chunk))
    yield* this.#take(this.#reader.end())
    if (this.#hasRows()) yield this.#close()
  }

  /** Returns the body of a batch that was sent, so that its buffer can be reused. */
  release({ body }: Pick<Batch, 'body'>): void {
    this.#spare.push(Buffer.from(body.buffer))
  }

  *#take(rows: Iterable<Row>): Generator<Batch> {
    for (const row of rows) {
      const outcome = this.#source.convert(row)
      if (outcome === 'verbatim') {
        if (!this.#hasRoom(1, row.end - row.start)) yield this.#close()
        this.#copyVerbatim(row)
        this.#lines.push(row.line)
        this.#haveIds = false
      } else if (outcome === 'skipped') {
        this.#skipped++
        this.#rowsWithoutEvent++
      } else if ('events' in outcome) {
        if (!this.#hasRoom(outcome.events.length, joinedLength(outcome.events))) yield this.#close()
        this.#addEvents(outcome, row.line)
        this.#addPeople(outcome, row.line)
        if (outcome.events.length === 0) this.#rowsWithoutEvent++
      } else {
        this.#rejects.push(rejected(row, outcome.fault))
      }
      for (const name of row.misfits) this.#misfits[name] = (this.#misfits[name] ?? 0) + 1
      this.#end.offset = row.next.offset
      this.#end.line = row.next.line
      if (this.#isFullOfNonEvents()) yield this.#close()
    }
    // The next rows are in another buffer.
    this.#copyRun()
  }

  #addEvents({ events, haveIds }: VendorOutcome, line: number): void {
    if (events.length === 0) return
    this.#copyRun()
    for (const event of events) {
      this.#copy(event, 0, event.length)
      this.#lines.push(line)
    }
    this.#haveIds &&= haveIds
  }

  #addPeople({ people, events }: VendorOutcome, line: number): void {
    for (const change of people) {
      this.#people.push({ ...change, line, hasEvent: events.length > 0 })
      // A resumed import does not know which aliases repeat earlier ones, so these must not decide where a batch ends.
      if (change.kind === 'alias') continue
      this.#changes++
      this.#changesLength += change.members.length
    }
  }

  /** Whether the batch is full apart from its events: it has too many rejects, changes or rows without an event. */
  #isFullOfNonEvents(): boolean {
    return (
      this.#rejects.length === MAX_REJECTS ||
      this.#rowsWithoutEvent === MAX_ROWS_WITHOUT_EVENT ||
      this.#changes >= MAX_CHANGES ||
      this.#changesLength >= this.#limits.bytes
    )
  }

  /** @param bytes of the events of a row, which are in one batch because an import resumes between two rows */
  #hasRoom(events: number, bytes: number): boolean {
    const count = this.#lines.length
    if (count === 0) return true
    const comma = this.#length > BATCH_HEAD.length ? 1 : 0
    const run = this.#run ? this.#run.end - this.#run.start + comma : 0
    return (
      count + events <= this.#limits.events && this.#length + run + bytes + 1 + BATCH_TAIL.length <= this.#limits.bytes
    )
  }

  /** Most rows are one byte apart, a line end or a comma. With a comma written there, they can be copied as one run. */
  #copyVerbatim({ raw, start, end }: Row): void {
    const run = this.#run
    if (run && run.raw === raw && start === run.end + 1) {
      raw[run.end] = COMMA
      run.end = end
    } else {
      this.#copyRun()
      this.#run = { raw, start, end }
    }
  }

  #copyRun(): void {
    if (this.#run) this.#copy(this.#run.raw, this.#run.start, this.#run.end)
    this.#run = null
  }

  #copy(bytes: Buffer, start: number, end: number): void {
    const needed = this.#length + end - start + 1 + BATCH_TAIL.length
    if (needed > this.#body.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#body.length))
      this.#body.copy(larger, 0, 0, this.#length)
      this.#body = larger
    }
    if (this.#length > BATCH_HEAD.length) this.#body[this.#length++] = COMMA
    this.#length += bytes.copy(this.#body, this.#length, start, end)
  }

  #hasRows(): boolean {
    return this.#lines.length + this.#rejects.length + this.#people.length + this.#skipped > 0
  }

  #close(): Batch {
    this.#copyRun()
    this.#length += BATCH_TAIL.copy(this.#body, this.#length)
    const batch = {
      index: this.#index++,
      body: this.#body.subarray(0, this.#length),
      count: this.#lines.length,
      lines: this.#lines,
      rejects: this.#rejects,
      haveIds: this.#haveIds,
      people: this.#people,
      skipped: this.#skipped,
      misfits: this.#misfits,
      end: { ...this.#end },
    }
    this.#body = this.#spare.pop() ?? Buffer.allocUnsafeSlow(FIRST_BODY_BYTES)
    this.#begin()
    return batch
  }

  #begin(): void {
    this.#length = BATCH_HEAD.copy(this.#body)
    this.#lines = []
    this.#rejects = []
    this.#haveIds = true
    this.#people = []
    this.#changes = 0
    this.#changesLength = 0
    this.#rowsWithoutEvent = 0
    this.#skipped = 0
    this.#misfits = emptyCounts()
  }
}

/** The length of events with commas between them. */
function joinedLength(events: readonly Buffer[]): number {
  return events.reduce((sum, { length }) => sum + length, Math.max(events.length - 1, 0))
}

function rejected({ raw, start, end, line }: Row, reason: string): Reject {
  return { line, reason, row: raw.toString('utf8', start, Math.min(end, start + SHOWN_ROW_BYTES)) }
}

/** Counts by column. A column may have any name, such as `constructor` or `__proto__`. */
export function emptyCounts(): Record<string, number> {
  return Object.create(null)
}
