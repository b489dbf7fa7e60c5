import { type CsvOptions, CsvReader } from './csv.js'
import type { InputFormat } from './formats.js'
import type { Input } from './input.js'
import { ArrayReader } from './json-array.js'
import { type InputOffset, LineReader, type RowReader } from './lines.js'

/**
 * Opens a reader for the text of an input.
 * @param start the beginning, or a position where an earlier reader of the same input stopped
 */
export async function openReader(
  input: Input,
  start: InputOffset,
  format: InputFormat,
  csv: CsvOptions,
): Promise<RowReader> {
  if (format === 'csv' && start.offset > 0) return new CsvReader(start, csv, await readColumns(input, csv))
  return readerFromStart(format, csv, start)
}

/** Opens a reader for a text from its beginning. */
export function readerFromStart(format: InputFormat, csv: CsvOptions, start: InputOffset = { offset: 0, line: 0 }) {
  switch (format) {
    case 'ndjson':
      return new LineReader(start)
    case 'json':
      return new ArrayReader(start)
    case 'csv':
      return new CsvReader(start, csv, null)
  }
}

async function readColumns(input: Input, csv: CsvOptions): Promise<string[]> {
  const reader = new CsvReader({ offset: 0, line: 0 }, csv, null)
  for await (const chunk of input.read(0)) {
    reader.read(chunk)[Symbol.iterator]().next()
    if (reader.columns) return reader.columns
  }
  throw new Error('The CSV has no rows.')
}
