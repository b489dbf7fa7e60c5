import { LINE_FEED, QUOTE } from '../../json/bytes.js'

const CARRIAGE_RETURN = 0x0d

/**
 * A quote whose closing quote is further than this from the record's start does not open a cell. No service accepts
 * such a row.
 */
export const MAX_RECORD_BYTES = 16 * 1024 * 1024

/** From this many lines on, lines that are each a valid row are never read as one quoted cell. */
const SURE_LINES = 3
/** One in this many lines of a supposed quoted cell may fail to be a row. */
const LINES_PER_MISS = 10

/** A record of a CSV table. */
export interface CsvRecord {
  /** the offset after its line end */
  end: number
  /** line ends in it, including its own */
  lines: number
  /** null if its quotes do not match and its first line cannot be read without them either */
  cells: string[] | null
  /** whether it has a quote where RFC 4180 does not allow one */
  isStray: boolean
}

export interface CsvDialect {
  /** a byte */
  delimiter: number
  /** how many cells a row must have; null for the first record, which names them */
  columns: number | null
  /** whether the table is known to have literal quotes, as in `27"` */
  hasStrays: boolean
}

/**
 * Reads the record at `start`. A quote opens a quoted cell, which may contain line ends, only at the beginning of a
 * cell, and only if its closing quote is followed by a delimiter, a line end, or the end of the input (RFC 4180). Any
 * other quote is stray, a literal character. So a stray quote spoils at most its own line:
 *
 * - If the quotes do not match, or the number of cells is wrong, the first line is read alone, with stray quotes as
 *   characters. If that gives the right number of cells, it is the row; otherwise only that line is rejected. The
 *   next record begins after it.
 * - Two stray quotes in different rows can look like one quoted cell. If each of its lines is a valid row, it is read
 *   as several rows: three or more lines always, two lines only if the table is known to have stray quotes.
 * - A record of several lines with the wrong number of cells is one bad row, unless most of its lines are valid rows.
 *
 * Each byte is scanned a bounded number of times, because a search for a closing quote ends at the next quote that is
 * not doubled, and the next search starts no earlier.
 * @returns null if the record does not end within these bytes
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

/**
 * Reads a record strictly by RFC 4180.
 * @returns null if its quotes do not match; `unknown` if more bytes are needed
 */
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

/** Finds the closing quote of a cell; null if there is none; `unknown` if more bytes are needed. */
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
    // Between two delimiters, a doubled quote is an empty cell, not an escaped quote.
    hasEscapes ||= isInText(raw[at - 1]) || isInText(raw[at + 2])
  }
}

/** Whether a byte next to a doubled quote is neither a line end nor a likely delimiter. */
function isInText(byte: number | undefined): boolean {
  return byte !== undefined && byte !== LINE_FEED && byte !== CARRIAGE_RETURN && !DELIMITERS.includes(byte)
}
const DELIMITERS = Buffer.from(',;\t|')

/** Whether a record of several lines is more likely several rows with two stray quotes. */
function areRows(raw: Buffer, start: number, record: Strict, dialect: CsvDialect): boolean {
  // Doubled quotes come from a program that quotes cells correctly.
  if (record.hasEscapes) return false
  const { lines, misses, isFirst } = rowsIn(raw, start, record, dialect)
  if (!isFirst || misses > Math.floor(lines / LINES_PER_MISS)) return false
  return lines >= SURE_LINES || dialect.hasStrays
}

/** Whether most lines of a record, apart from the first, would be valid rows. */
function hasRows(raw: Buffer, start: number, record: Strict, dialect: CsvDialect): boolean {
  const { lines, misses, isFirst } = rowsIn(raw, start, record, dialect)
  const others = lines - 1
  return others > 0 && 2 * (lines - misses - (isFirst ? 1 : 0)) > others
}

/** Counts the lines of a record that would be valid rows. Empty lines do not count. */
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

/**
 * Splits one line into cells. Quotes that do not match are literal; if that gives the wrong number of cells, all
 * quotes are.
 */
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

/** @param end the offset after the closing quote */
function quotedCell(text: string, open: number, separator: string): { cell: string; end: number } | null {
  for (let at = text.indexOf('"', open + 1); at !== -1; at = text.indexOf('"', at + 2)) {
    if (text[at + 1] === '"') continue
    if (at + 1 < text.length && text[at + 1] !== separator) return null
    return { cell: text.slice(open + 1, at).replaceAll('""', '"'), end: at + 1 }
  }
  return null
}

/** Whether a row has one cell per column, apart from empty cells at its end. */
function fits(cells: readonly string[], columns: number | null): boolean {
  if (columns === null || cells.length === columns) return true
  return cells.length > columns && cells.slice(columns).every((cell) => cell.trim() === '')
}

/** Removes empty cells beyond the columns. */
function trimCells(cells: string[], columns: number | null): string[] {
  return columns !== null && cells.length > columns && fits(cells, columns) ? cells.slice(0, columns) : cells
}

function decodeText(raw: Buffer, start: number, end: number): string {
  return raw.toString('utf8', start, end)
}

/** Returns the offset of a line's end, before its line break. */
function contentEnd(raw: Buffer, start: number, next: number): number {
  let end = next
  if (end > start && raw[end - 1] === LINE_FEED) end--
  return end > start && raw[end - 1] === CARRIAGE_RETURN ? end - 1 : end
}

function isLineEnd(raw: Buffer, at: number): boolean {
  return raw[at] === CARRIAGE_RETURN && (at + 1 === raw.length || raw[at + 1] === LINE_FEED)
}
