/** Replaces control characters, which a terminal would interpret. */
export function replaceControls(text: string, replacement = '\uFFFD'): string {
  return text.replace(/\p{Cc}/gu, replacement)
}

/** Formats rows as JSON, one per line. */
export function jsonLines(rows: readonly unknown[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('')
}

/** Formats a time in UTC, to the second. @param ms since 1970 */
export function formatTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

/**
 * Aligns the cells of rows in columns, two spaces apart.
 * @param rows the first has the titles
 * @param isRight which columns are aligned to the right; default: none
 */
export function alignColumns(rows: readonly (readonly string[])[], isRight: readonly boolean[] = []): string {
  const widths = columnWidths(rows)
  const pad = (cell: string, i: number) => (isRight[i] ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))
  return rows.map((row) => `${row.map(pad).join('  ').trimEnd()}\n`).join('')
}

export function columnWidths(rows: readonly (readonly string[])[]): number[] {
  return rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0))) ?? []
}
