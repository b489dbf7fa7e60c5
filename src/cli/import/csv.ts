import { type Options, parse } from 'csv-parse/sync'
import { LINE_FEED, QUOTE } from '../../json/bytes.js'
import { objectText } from '../../vendors/row.js'
import { type InputOffset, MAX_ROW_BYTES, newRow, type Row, type RowReader, tooLong } from './lines.js'

const EMPTY = Buffer.alloc(0)

/** Records per call of the parser; parsing them one by one takes ten times as long. */
const PARSED_TOGETHER = 200

/** A record's place in the bytes, its first line (from 1), and the number of line ends in it. */
interface Record {
  start: number
  end: number
  line: number
  lines: number
}

/**
 * Reads the records of a CSV table (RFC 4180), in which a quoted cell may contain line ends. Each record becomes a JSON
 * object with its cells as strings. The first record names the columns and is not a row; neither is one that repeats it, as
 * where several tables were put together.
 *
 * The record boundaries are found here and not by csv-parse, whose `info.bytes` counts the empty lines that follow a record
 * in or out, depending on the record; an import resumes by them and shows the exact bytes of a rejected row.
 */
export class CsvReader implements RowReader {
  readonly #row = newRow()
  readonly #delimiter: string
  #columns: string[] | null
  /** of the columns */
  #names: Set<string>
  #rest: Buffer = EMPTY
  /** of the first byte of `#rest` */
  #offset: number
  #line: number

  /** @param columns null if the table is read from its beginning */
  constructor({ offset, line }: InputOffset, delimiter: string, columns: string[] | null) {
    this.#offset = offset
    this.#line = line
    this.#delimiter = delimiter
    this.#columns = columns
    this.#names = new Set(columns)
  }

  /** The names of the columns; null until their record has been read. */
  get columns(): string[] | null {
    return this.#columns
  }

  *read(chunk: Buffer): Iterable<Row> {
    const raw = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    yield* this.#rows(raw, false)
    if (this.#rest.length > MAX_ROW_BYTES) throw tooLong(this.#line + 1)
  }

  *end(): Iterable<Row> {
    yield* this.#rows(this.#rest, true)
  }

  *#rows(raw: Buffer, isEnd: boolean): Iterable<Row> {
    const base = this.#offset
    const records: Record[] = []
    let at = 0
    for (;;) {
      const record = nextRecord(raw, at, this.#line, this.#delimiter.charCodeAt(0), isEnd)
      if (!record) break
      at = record.end
      this.#line += record.lines
      if (!isBlank(raw, record)) records.push(record)
      if (records.length === PARSED_TOGETHER) yield* this.#parsed(raw, base, records.splice(0))
    }
    yield* this.#parsed(raw, base, records)
    this.#rest = raw.subarray(at)
    this.#offset = base + at
  }

  *#parsed(raw: Buffer, base: number, records: Record[]): Iterable<Row> {
    if (!this.#columns) this.#columns = this.#header(raw, records.shift())
    const first = records[0]
    if (!first) return
    const together = this.#tryParse(raw, first.start, records.at(-1)?.end ?? first.end)
    for (const [i, { start, end, line, lines }] of records.entries()) {
      // If one record is damaged, or the parser counts them differently, each is parsed alone.
      const cells = together?.length === records.length ? together[i] : this.#tryParse(raw, start, end)?.[0]
      if (cells && this.#namesColumns(cells, line)) continue
      const fault = this.#faultOf(cells)
      const table = cells && fault === null ? this.#objectOf(cells) : null
      const next = { offset: base + end, line: line + lines - 1 }
      yield Object.assign(this.#row, { raw, start, end, line, table, fault, isUtf8: false, next })
    }
  }

  /** @throws Error if the record cannot be parsed, or names a column twice */
  #header(raw: Buffer, record: Record | undefined): string[] | null {
    if (!record) return null
    const cells = this.#tryParse(raw, record.start, record.end)?.[0]?.map(trimmedName)
    if (!cells) throw new Error('The first line of the CSV, which names its columns, cannot be read.')
    const names = new Set<string>()
    for (const cell of cells) {
      if (names.has(cell)) throw new Error(`The CSV has two columns with the name "${cell}".`)
      names.add(cell)
    }
    this.#names = names
    return cells
  }

  /** @throws Error if the cells are the names of the columns in another order: what follows would get wrong names */
  #namesColumns(cells: string[], line: number): boolean {
    const columns = this.#columns ?? []
    const first = trimmedName(cells[0])
    // Of nearly all rows the first cell tells.
    if (cells.length !== columns.length || !this.#names.has(first)) return false
    const names = cells.map(trimmedName)
    if (names.every((name, i) => name === columns[i])) return true
    if (new Set(names).size < names.length || !names.every((name) => this.#names.has(name))) return false
    throw new Error(
      `Line ${line} of the CSV names its columns again, in another order. Import the tables in it one by one.`,
    )
  }

  #tryParse(raw: Buffer, start: number, end: number): string[][] | null {
    const options: Options = {
      delimiter: this.#delimiter,
      // Both, as in nextRecord: by default the first line end of the bytes decides, and others would become part of a cell.
      record_delimiter: ['\r\n', '\n'],
      relax_column_count: true,
      relax_quotes: true,
      skip_empty_lines: true,
    }
    try {
      return parse(raw.subarray(start, end), options) as string[][]
    } catch {
      return null
    }
  }

  #faultOf(cells: string[] | undefined): string | null {
    if (!cells) return 'The row is not valid CSV: its quotes do not match.'
    const wanted = this.#columns?.length ?? 0
    return cells.length === wanted ? null : `The row has ${cells.length} cells, but there are ${wanted} columns.`
  }

  #objectOf(cells: string[]): string {
    return objectText(cells.map((cell, i) => [this.#columns?.[i] ?? '', JSON.stringify(cell)] as const))
  }
}

/**
 * Finds the end of the record at `start`. A quote opens a cell only at the cell's beginning; inside, two quotes stand for
 * one.
 * @returns null if the end is not in these bytes
 */
function nextRecord(raw: Buffer, start: number, line: number, delimiter: number, isEnd: boolean): Record | null {
  if (start === raw.length) return null
  let isQuoted = false
  let isCellStart = true
  let lines = 0
  for (let at = start; at < raw.length; at++) {
    const byte = raw[at]
    if (byte === LINE_FEED) {
      lines++
      if (!isQuoted) return { start, end: at + 1, line: line + 1, lines }
    } else if (isQuoted) {
      if (byte !== QUOTE) continue
      if (raw[at + 1] === QUOTE) at++
      else isQuoted = false
    } else {
      isQuoted = isCellStart && byte === QUOTE
      isCellStart = byte === delimiter
    }
  }
  return isEnd ? { start, end: raw.length, line: line + 1, lines: lines + 1 } : null
}

function isBlank(raw: Buffer, { start, end }: Record): boolean {
  for (let at = start; at < end; at++) if ((raw[at] ?? 0) > 0x20) return false
  return true
}

function trimmedName(cell = ''): string {
  return cell.trim()
}
