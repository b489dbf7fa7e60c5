import type { Input } from './input.js'
import { LineReader, type Position, type RowReader } from './rows.js'

export const FORMATS = ['ndjson', 'json', 'csv'] as const
export type Format = (typeof FORMATS)[number]

export interface FormatOptions {
  format: Format | undefined
  delimiter: string
}

/** The reader for an input, from a place on where an earlier one was. */
export async function openReader(_input: Input, start: Position, _options: FormatOptions): Promise<RowReader> {
  return new LineReader(start)
}
