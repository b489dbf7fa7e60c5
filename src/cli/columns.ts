/** Replaces control characters, which a terminal would interpret. */
export function replaceControls(text: string, replacement = '\uFFFD'): string {
  return text.replace(/\p{Cc}/gu, replacement)
}

/** Aligns the cells of rows in columns, two spaces apart. @param rows the first has the titles */
export function alignColumns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0))) ?? []
  const align = (row: readonly string[]) => row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ')
  return rows.map((row) => `${align(row).trimEnd()}\n`).join('')
}
