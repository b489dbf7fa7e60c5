/** A cell: a number is aligned to the right. */
export type Cell = string | number | null

export interface Table {
  columns: string[]
  rows: Cell[][]
}

/** What a terminal might take for a command. */
const CONTROLS = /\p{Cc}/gu
const GAP = '  '
const MAX_CELL = 60
const DIGITS = 12

/** As columns of characters, under a line of dashes. */
export function tableText({ columns, rows }: Table): string {
  const texts = rows.map((row) => row.map((cell) => cellText(cell)))
  const heads = columns.map((column) => cellText(column))
  const widths = heads.map((head, i) => Math.max(head.length, ...texts.map((row) => row[i]?.length ?? 0)))
  const isNumber = heads.map((_, i) => rows.length > 0 && rows.every((row) => isNumeric(row[i] ?? null)))
  const line = (cells: string[]) =>
    cells
      .map((cell, i) => (isNumber[i] ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join(GAP)
      .trimEnd()
  return [heads, widths.map((width) => '-'.repeat(width)), ...texts].map((cells) => `${line(cells)}\n`).join('')
}

/** RFC 4180, with a header. Values are as they are: also those that a spreadsheet takes for formulas. */
export function csvText({ columns, rows }: Table): string {
  const field = (cell: Cell) => {
    const text = cell === null ? '' : spelled(cell)
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  return [columns, ...rows].map((cells) => `${cells.map(field).join(',')}\r\n`).join('')
}

function cellText(cell: Cell): string {
  if (cell === null) return '-'
  const text = spelled(shortened(cell)).replace(CONTROLS, ' ')
  return text.length > MAX_CELL ? `${text.slice(0, MAX_CELL - 1)}…` : text
}

/** Without what the last digits of a double add to a sum. */
function shortened(cell: string | number): string | number {
  return typeof cell === 'number' ? Number(cell.toPrecision(DIGITS)) : cell
}

/** A number beyond doubles as the service has it. */
function spelled(cell: string | number): string {
  if (typeof cell === 'string' || Number.isFinite(cell)) return String(cell)
  return cell < 0 ? '-1e400' : '1e400'
}

/** Percentages, lengths of time and what is not over yet are lined up as numbers are. */
function isNumeric(cell: Cell): boolean {
  return cell === null || typeof cell === 'number' || /^-?\d[\d.e+]*\*?( %| ms| s| min| h| d)?\*?$/.test(cell)
}
