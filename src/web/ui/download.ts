import { csvOf } from '../lib/csv.js'

/** Lets the browser save a table as a file. @param name without its ending */
export function downloadCsv(name: string, rows: (string | number | null)[][]): void {
  // The mark says to Excel that it is UTF-8.
  const url = URL.createObjectURL(new Blob(['\uFEFF', csvOf(rows)], { type: 'text/csv;charset=utf-8' }))
  const link = document.createElement('a')
  link.href = url
  link.download = `${name}.csv`
  link.click()
  URL.revokeObjectURL(url)
}
