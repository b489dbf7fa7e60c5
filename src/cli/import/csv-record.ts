import { LINE_FEED, QUOTE } from '../../json/bytes.js'

const CARRIAGE_RETURN = 0x0d

/** A quoted cell that is not closed within so many bytes of its record's beginning is none. No service takes such a row. */
export const MAX_RECORD_BYTES = 16 * 1024 * 1024

/** So many lines, each of which is a row alone, are never taken for one quoted cell. */
const SURE_LINES = 3
/** Of so many lines that a quoted cell would have, one may be no row alone. */
const LINES_PER_MISS = 10

/** A record of a CSV table. */
export interface CsvRecord {
  /** the place after it and its line end */
  end: number
  /** line ends in it, its own included */
  lines: number
  /** null if its quotes do not match, and it cannot be read without them either */
  cells: string[] | null
  /** whether it has a quote that RFC 4180 does not allow there */
  isStray: boolean
}

export interface CsvDialect {
  /** a byte */
  delimiter: number
  /** how many cells a row must have; null for the first record, which names them */
  columns: number | null
  /** whether the table is known to have quotes that mean nothing, as in `27"` */
  hasStrays: boolean
}

/**
 * Reads the record at `start`. A quote opens a quoted cell, which may contain line ends, only at the beginning of a cell,
 * and only if its closing quote is followed by a delimiter, a line end, or the end of the input (RFC 4180). Any other quote
 * is a stray one, a character like others. So a stray quote costs at most its own line:
 *
 * - If the quotes do not match, or the cells are not as many as the columns, the first line is read alone, with its stray
 *   quotes as characters. If that gives the right number of cells, it is the row, otherwise it alone is no row. Lines that
 *   follow begin afresh.
 * - Two stray quotes in different rows can look like one quoted cell. If each line of it is a row alone, it is several
 *   rows: from three lines on always, of two lines only where the table is known to have stray quotes.
 * - A record of several lines with the wrong number of cells is one bad row, unless most of its lines are rows alone.
 *
 * Each byte is looked at a bounded number of times: a search for a closing quote ends at the next quote that is not doubled,
 * where the next search begins at the earliest.
 * @returns null if the end of the record is not in these bytes
 */
export function readRecord(raw: Buffer, start: number, dialect: CsvDialect, isEnd: boolean): CsvRecord | null {
  const { delimiter, columns } = dialect
  const found = raw.indexOf(LINE_FEED, start)
  if (found === -1 && !isEnd) return null
  const next = found === -1 ? raw.length : found + 1
  const line = decodeText(raw, start, contentEnd(raw, start, next))
  const alone = { end: next, lines: 1 }
  if (!line.includes('"')) {
    return { ...alone, cells: trimCells(line.split(String.fromCharCode(delimiter)), columns), isStray: false }
  }
  const strict = strictRecord(raw, start, delimiter, isEnd)
  if (strict === 'unknown') return null
  if (strict && columns === null) return strict
  const isRight = strict !== null && fits(strict.cells, columns)
  if (strict && isRight && !(strict.lines > 1 && areRows(raw, start, strict, dialect))) {
    return { ...strict, cells: trimCells(strict.cells, columns) }
  }
  const cells = splitLine(line, delimiter, columns)
  const isRow = fits(cells, columns)
  if (strict && !isRight && (strict.lines === 1 ? !isRow : !hasRows(raw, start, strict, dialect))) return strict
  return { ...alone, cells: isRow || strict ? trimCells(cells, columns) : null, isStray: true }
}

type Strict = CsvRecord & { cells: string[]; hasEscapes: boolean }

/** Reads a record as RFC 4180 has it. @returns null if its quotes do not match; `unknown` if more bytes are needed */
function strictRecord(raw: Buffer, start: number, delimiter: number, isEnd: boolean): Strict | null | 'unknown' {
  const cells: string[] = []
  let isStray = false
  let hasEscapes = false
  let lines = 1
  let at = start
  for (;;) {
    let end = at
    if (raw[at] === QUOTE) {
      const closed = closingQuote(raw, at, start, isEnd)
      if (closed === null || closed === 'unknown') return closed
      end = closed.at + 1
      const text = decodeText(raw, at + 1, closed.at)
      cells.push(closed.hasDoubled ? text.replaceAll('""', '"') : text)
      for (let i = at; i < end; i++) if (raw[i] === LINE_FEED) lines++
      hasEscapes ||= closed.hasEscapes
      if (raw[end] === CARRIAGE_RETURN && end + 1 === raw.length && !isEnd) return 'unknown'
      const isOver = end === raw.length || raw[end] === LINE_FEED || isLineEnd(raw, end)
      if (!isOver && raw[end] !== delimiter) return null
    } else {
      for (; end < raw.length && raw[end] !== delimiter && raw[end] !== LINE_FEED; end++) {
        if (raw[end] === QUOTE) isStray = true
      }
      if (end === raw.length && !isEnd) return 'unknown'
      cells.push(decodeText(raw, at, contentEnd(raw, at, end)))
    }
    if (raw[end] === delimiter) at = end + 1
    else {
      const next = raw[end] === CARRIAGE_RETURN ? end + 2 : end + 1
      return { end: Math.min(next, raw.length), lines, cells, isStray, hasEscapes }
    }
  }
}

/** The closing quote of the cell that a quote opens; null if there is none; `unknown` if more bytes are needed. */
function closingQuote(raw: Buffer, open: number, start: number, isEnd: boolean) {
  const limit = start + MAX_RECORD_BYTES
  let hasDoubled = false
  let hasEscapes = false
  for (let at = open + 1; ; at += 2) {
    at = raw.indexOf(QUOTE, at)
    if (at > limit) return null
    if (at === -1) return isEnd || raw.length > limit ? null : 'unknown'
    if (at + 1 === raw.length && !isEnd) return 'unknown'
    if (raw[at + 1] !== QUOTE) return { at, hasDoubled, hasEscapes }
    hasDoubled = true
    // Alone between two delimiters it would be an empty cell.
    hasEscapes ||= isInText(raw[at - 1]) || isInText(raw[at + 2])
  }
}

/** Whether a byte beside two quotes is neither the end of a line nor what is likely to delimit cells. */
function isInText(byte: number | undefined): boolean {
  return byte !== undefined && byte !== LINE_FEED && byte !== CARRIAGE_RETURN && !DELIMITERS.includes(byte)
}
const DELIMITERS = Buffer.from(',;\t|')

/** Whether a record of several lines is rather several rows, between two stray quotes. */
function areRows(raw: Buffer, start: number, record: Strict, dialect: CsvDialect): boolean {
  // Text with doubled quotes was written by a program that quotes its cells.
  if (record.hasEscapes) return false
  const { lines, misses, isFirst } = rowsIn(raw, start, record, dialect)
  if (!isFirst || misses > Math.floor(lines / LINES_PER_MISS)) return false
  return lines >= SURE_LINES || dialect.hasStrays
}

/** Whether most lines of a record, apart from the first, would be rows alone. */
function hasRows(raw: Buffer, start: number, record: Strict, dialect: CsvDialect): boolean {
  const { lines, misses, isFirst } = rowsIn(raw, start, record, dialect)
  const others = lines - 1
  return others > 0 && 2 * (lines - misses - (isFirst ? 1 : 0)) > others
}

/** How many lines of a record would be rows alone. Empty lines do not count. */
function rowsIn(raw: Buffer, start: number, { end }: Strict, { delimiter, columns }: CsvDialect) {
  let lines = 0
  let misses = 0
  let isFirst = false
  for (let at = start; at < end; ) {
    const found = raw.indexOf(LINE_FEED, at)
    const next = found === -1 || found >= end ? end : found + 1
    const text = decodeText(raw, at, contentEnd(raw, at, next))
    if (text.trim() !== '') {
      const isRow = fits(splitLine(text, delimiter, columns), columns)
      if (at === start) isFirst = isRow
      lines++
      if (!isRow) misses++
    }
    at = next
  }
  return { lines, misses, isFirst }
}

/** The cells of one line. Quotes that do not match are characters; if that gives the wrong number of cells, all of them are. */
function splitLine(text: string, delimiter: number, columns: number | null): string[] {
  const separator = String.fromCharCode(delimiter)
  const cells: string[] = []
  for (let at = 0; at <= text.length; ) {
    const quoted = text[at] === '"' ? quotedCell(text, at, separator) : null
    const found = text.indexOf(separator, quoted ? quoted.end : at)
    const end = found === -1 ? text.length : found
    cells.push(quoted ? quoted.cell : text.slice(at, end))
    at = end + 1
  }
  if (fits(cells, columns)) return cells
  const plain = text.split(separator)
  return fits(plain, columns) ? plain : cells
}

/** @param end the place after the closing quote */
function quotedCell(text: string, open: number, separator: string): { cell: string; end: number } | null {
  for (let at = text.indexOf('"', open + 1); at !== -1; at = text.indexOf('"', at + 2)) {
    if (text[at + 1] === '"') continue
    if (at + 1 < text.length && text[at + 1] !== separator) return null
    return { cell: text.slice(open + 1, at).replaceAll('""', '"'), end: at + 1 }
  }
  return null
}

/** Whether a row has as many cells as there are columns, apart from empty ones at its end. */
function fits(cells: readonly string[], columns: number | null): boolean {
  if (columns === null || cells.length === columns) return true
  return cells.length > columns && cells.slice(columns).every((cell) => cell.trim() === '')
}

/** Without the empty cells that there are beyond the columns. */
function trimCells(cells: string[], columns: number | null): string[] {
  return columns !== null && cells.length > columns && fits(cells, columns) ? cells.slice(0, columns) : cells
}

function decodeText(raw: Buffer, start: number, end: number): string {
  return raw.toString('utf8', start, end)
}

/** The place after the text of a line, without its line end. */
function contentEnd(raw: Buffer, start: number, next: number): number {
  let end = next
  if (end > start && raw[end - 1] === LINE_FEED) end--
  return end > start && raw[end - 1] === CARRIAGE_RETURN ? end - 1 : end
}

function isLineEnd(raw: Buffer, at: number): boolean {
  return raw[at] === CARRIAGE_RETURN && (at + 1 === raw.length || raw[at + 1] === LINE_FEED)
}
