import { alignColumns, columnWidths, replaceControls } from '../columns.js'

/** A cell: a number is aligned to the right. */
export type Cell = string | number | null

export interface Table {
  columns: string[]
  rows: Cell[][]
}

const MAX_CELL = 60
const DIGITS = 12

/** Formats a table with aligned columns and a line of dashes under the header. */
export function tableText({ columns, rows }: Table): string {
  const texts = rows.map((row) => row.map((cell) => cellText(cell)))
  const heads = columns.map((column) => cellText(column))
  const dashes = columnWidths([heads, ...texts]).map((width) => '-'.repeat(width))
  const isNumber = heads.map((_, i) => rows.length > 0 && rows.every((row) => isNumeric(row[i] ?? null)))
  return alignColumns([heads, dashes, ...texts], isNumber)
}

/** Formats CSV (RFC 4180) with a header. Values are not escaped for spreadsheets, which may treat some as formulas. */
export function csvText({ columns, rows }: Table): string {
  const field = (cell: Cell) => {
    const text = cell === null ? '' : spell(cell)
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  return [columns, ...rows].map((cells) => `${cells.map(field).join(',')}\r\n`).join('')
}

function cellText(cell: Cell): string {
  if (cell === null) return '-'
  const text = replaceControls(spell(shorten(cell)), ' ')
  return text.length > MAX_CELL ? `${text.slice(0, MAX_CELL - 1)}…` : text
}

/** Rounds away the floating-point error of a sum. */
function shorten(cell: string | number): string | number {
  return typeof cell === 'number' ? Number(cell.toPrecision(DIGITS)) : cell
}

/** Keeps a number that a double cannot represent as the service spells it. */
function spell(cell: string | number): string {
  if (typeof cell === 'string' || Number.isFinite(cell)) return String(cell)
  return cell < 0 ? '-1e400' : '1e400'
}

/** Whether to align a cell as a number: percentages, durations and incomplete values are, too. */
function isNumeric(cell: Cell): boolean {
  return cell === null || typeof cell === 'number' || /^-?\d[\d.e+]*\*?( %| ms| s| min| h| d)?\*?$/.test(cell)
}
