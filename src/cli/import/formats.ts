import { CsvReader } from './csv.js'
import type { Input } from './input.js'
import { ArrayReader } from './json-array.js'
import { type InputOffset, LineReader, type RowReader } from './lines.js'

export const FORMATS = ['ndjson', 'json', 'csv'] as const
export type Format = (typeof FORMATS)[number]

/** By the first character that is no white space: a brace begins NDJSON, a bracket a JSON array, anything else CSV. */
export async function findFormat(input: Input): Promise<Format> {
  const [first] = /\S/.exec((await input.beginning()).toString('latin1')) ?? []
  return first === '{' ? 'ndjson' : first === '[' ? 'json' : 'csv'
}

/**
 * A reader for the text of an input, from a place on where a reader of it was.
 * @param delimiter between the cells of CSV
 */
export async function openReader(
  input: Input,
  start: InputOffset,
  format: Format,
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
