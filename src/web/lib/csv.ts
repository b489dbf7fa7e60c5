/** A text like this is a formula to spreadsheets, which run it when they open the file; to some, `;` or a tab ends a cell. */
const FORMULA = /(?:^|[;\t])\s*[=+\-@\t\r＝＋－＠]/

/** The fields of a line. */
export type CsvRow = (string | number | null)[]

/** RFC 4180. An apostrophe before texts that spreadsheets take for formulas keeps these from running. */
export function formatCsv(rows: CsvRow[]): string {
  return rows.map((row) => `${row.map(formatCell).join(',')}\r\n`).join('')
}

function formatCell(value: string | number | null): string {
  if (value === null) return ''
  if (typeof value === 'number') return String(value)
  const text = FORMULA.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
