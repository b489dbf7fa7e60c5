import { CsvReader } from './csv.js'
import type { InputFormat } from './formats.js'
import type { Input } from './input.js'
import { ArrayReader } from './json-array.js'
import { type InputOffset, LineReader, type RowReader } from './lines.js'

/**
 * Opens a reader for the text of an input.
 * @param start the beginning, or a place where an earlier reader of the same input stopped
 * @param delimiter between the cells of CSV
 */
export async function openReader(
  input: Input,
  start: InputOffset,
  format: InputFormat,
  delimiter: string,
): Promise<RowReader> {
  switch (format) {
    case 'ndjson':
      return new LineReader(start)
    case 'json':
      return new ArrayReader(start)
    case 'csv':
      return new CsvReader(start, delimiter, start.offset === 0 ? null : await columnsOf(input, delimiter))
  }
}

async function columnsOf(input: Input, delimiter: string): Promise<string[]> {
  const reader = new CsvReader({ offset: 0, line: 0 }, delimiter, null)
  for await (const chunk of input.read(0)) {
    reader.read(chunk)[Symbol.iterator]().next()
    if (reader.columns) return reader.columns
  }
  throw new Error('The CSV has no rows.')
}
