import { objectText } from '../../vendors/row.js'
import { type CellTypes, cellText } from './cell-types.js'
import { type CsvRecord, MAX_RECORD_BYTES, readRecord } from './csv-record.js'
import {
  type InputOffset,
  isBlank,
  MAX_ROW_BYTES,
  newRow,
  type Row,
  type RowReader,
  RowsError,
  tooLong,
} from './lines.js'

const EMPTY = Buffer.alloc(0)

/** How to read a table. A resumed import must use the same options. */
export interface CsvOptions {
  delimiter: string
  /** whether the table is known to have stray quotes, see `readRecord` */
  hasStrays: boolean
  /** by column; cells of other columns are text */
  types: CellTypes
}

/**
 * Reads the records of a CSV table (RFC 4180), in which a quoted cell may contain line ends; see `readRecord` for
 * stray quotes. Each record becomes a JSON object with its cells as strings, or converted to their column's type. The
 * first record names the columns and is not a row; neither is one that repeats it, as in concatenated tables. Empty
 * cells beyond the named columns are ignored.
 */
export class CsvReader implements RowReader {
  readonly #row = newRow()
  readonly #options: CsvOptions
  #columns: string[] | null
  /** the columns as a set */
  #names: Set<string>
  #rest: Buffer = EMPTY
  /** chunks that follow `#rest` */
  #more: Buffer[] = []
  #moreBytes = 0
  /** of the first byte of `#rest` */
  #offset: number
  #line: number
  #strays = 0

  /** @param columns null if reading from the beginning of the table */
  constructor({ offset, line }: InputOffset, options: CsvOptions, columns: string[] | null) {
    this.#offset = offset
    this.#line = line
    this.#options = options
    this.#columns = columns
    this.#names = new Set(columns)
  }

  /** The column names; null until the header has been read. */
  get columns(): string[] | null {
    return this.#columns
  }

  /** Number of records so far with a quote where RFC 4180 does not allow one. */
  get strays(): number {
    return this.#strays
  }

  *read(chunk: Buffer): Iterable<Row> {
    this.#more.push(chunk)
    this.#moreBytes += chunk.length
    // An incomplete record is scanned again only when its bytes have doubled, which keeps the time linear.
    if (this.#moreBytes < Math.min(this.#rest.length, MAX_RECORD_BYTES)) return
    yield* this.#rows(this.#joinChunks(), false)
    if (this.#rest.length > MAX_ROW_BYTES) throw tooLong(this.#line + 1)
  }

  *end(): Iterable<Row> {
    yield* this.#rows(this.#joinChunks(), true)
  }

  #joinChunks(): Buffer {
    const [first = EMPTY] = this.#more
    const raw = this.#rest.length === 0 && this.#more.length < 2 ? first : Buffer.concat([this.#rest, ...this.#more])
    this.#more = []
    this.#moreBytes = 0
    return raw
  }

  *#rows(raw: Buffer, isEnd: boolean): Iterable<Row> {
    const base = this.#offset
    const { delimiter, hasStrays } = this.#options
    let at = 0
    while (at < raw.length) {
      const columns = this.#columns?.length ?? null
      const record = readRecord(raw, at, { delimiter: delimiter.charCodeAt(0), columns, hasStrays }, isEnd)
      if (!record) break
      const [start, line] = [at, this.#line + 1]
      at = record.end
      this.#line += record.lines
      if (record.isStray) this.#strays++
      if (isBlank(raw, start, at)) continue
      if (!this.#columns) this.#columns = this.#header(record)
      else if (!record.cells || !this.#namesColumns(record.cells, line)) {
        const next = { offset: base + at, line: this.#line }
        yield this.#found(record, { raw, start, end: at, line, next })
      }
    }
    this.#rest = raw.subarray(at)
    this.#offset = base + at
  }

  #found({ cells }: CsvRecord, place: Pick<Row, 'raw' | 'start' | 'end' | 'line' | 'next'>): Row {
    const row = Object.assign(this.#row, place, { table: null, isUtf8: false, isEmpty: false, misfits: [] as string[] })
    row.fault = this.#findFault(cells)
    if (cells?.every((cell) => cell === '')) Object.assign(row, { fault: null, isEmpty: true })
    else if (cells && row.fault === null) this.#fill(row, cells)
    return row
  }

  /** @throws RowsError if the record names a column twice */
  #header({ cells }: CsvRecord): string[] {
    const all = cells?.map(trimmedName)
    if (!all) throw new RowsError('The header line of the CSV cannot be read.')
    const columns = all.slice(0, all.findLastIndex((name) => name !== '') + 1)
    const names = new Set<string>()
    for (const name of columns) {
      if (names.has(name)) throw new RowsError(`The CSV has two columns with the name "${name}". Rename one of them.`)
      names.add(name)
    }
    this.#names = names
    return columns
  }

  /** @throws RowsError if the cells are the column names in another order, because later rows would get wrong names */
  #namesColumns(cells: string[], line: number): boolean {
    const columns = this.#columns ?? []
    const first = trimmedName(cells[0])
    // Usually the first cell already differs.
    if (cells.length !== columns.length || !this.#names.has(first)) return false
    const names = cells.map(trimmedName)
    if (names.every((name, i) => name === columns[i])) return true
    if (new Set(names).size < names.length || !names.every((name) => this.#names.has(name))) return false
    throw new RowsError(
      `Line ${line} of the CSV is another header line, in another order. Import its tables one by one.`,
    )
  }

  #findFault(cells: string[] | null): string | null {
    if (!cells) return 'The row is not valid CSV: its quotes do not match.'
    const wanted = this.#columns?.length ?? 0
    return cells.length === wanted ? null : `The row has ${cells.length} cells, but there are ${wanted} columns.`
  }

  #fill(row: Row, cells: string[]): void {
    const { types } = this.#options
    const entries = cells.map((cell, i) => {
      const name = this.#columns?.[i] ?? ''
      const type = types.get(name)
      if (!type || cell === '') return [name, JSON.stringify(cell)] as const
      const text = cellText(cell, type)
      if (text !== null) return [name, text] as const
      if (type.isGiven) row.fault ??= misfit(name, cell, type.name)
      else row.misfits.push(name)
      return [name, JSON.stringify(cell)] as const
    })
    row.table = row.fault === null ? objectText(entries) : null
  }
}

function misfit(column: string, cell: string, type: string): string {
  return `The cell ${JSON.stringify(cell.slice(0, 100))} of the column "${column}" is not a ${type}.`
}

function trimmedName(cell = ''): string {
  return cell.trim()
}
