/** Spreadsheets execute a cell like this as a formula; some also split cells at `;` and tabs. */
const FORMULA = /(?:^|[;\t])\s*[=+\-@\t\r＝＋－＠]/

/** A line of a CSV file. */
export type CsvRow = (string | number | null)[]

/** The rows of a CSV file, which may have only a part of the table. */
export interface CsvPart {
  /** with the heading */
  rows: CsvRow[]
  /** whether the table has more rows */
  isCut: boolean
}

/** Formats rows as CSV (RFC 4180). An apostrophe keeps spreadsheets from executing texts as formulas. */
export function formatCsv(rows: CsvRow[]): string {
  return rows.map((row) => `${row.map(formatCell).join(',')}\r\n`).join('')
}

function formatCell(value: string | number | null): string {
  if (value === null) return ''
  if (typeof value === 'number') return String(value)
  const text = FORMULA.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
