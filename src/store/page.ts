import type { Readable } from 'node:stream'
import type { ClickHouseSettings } from '@clickhouse/client'

/** Every mark has this length, so that it is found at the end of a stream that nobody parses. */
const MARK_BYTES = 36

/** Rows as they are, with commas between them. */
export const PAGE_SETTINGS: ClickHouseSettings = {
  format_custom_escaping_rule: 'Raw',
  format_custom_field_delimiter: '',
  format_custom_row_before_delimiter: '',
  format_custom_row_after_delimiter: '',
  format_custom_row_between_delimiter: ',',
  format_custom_result_before_delimiter: '',
  format_custom_result_after_delimiter: '',
  output_format_json_escape_forward_slashes: 0,
}

/**
 * A query for `{limit:UInt32}` rows from `{offset:UInt64}` on, each as a JSON text. Where there is one more row, its
 * mark comes instead of it: by that a reader knows, at the end of the stream, that there is a next page and where.
 *
 * @param json an expression for the JSON text of an object
 * @param mark an expression for a text of exactly 36 ASCII characters that does not end with a brace
 * @param from an ordered SELECT of the columns that the two need
 */
export function pageOf({ json, mark, from }: { json: string; mark: string; from: string }): string {
  return `
    SELECT if(rowNumberInAllBlocks() < {limit:UInt32}, ${json}, ${mark})
    FROM (${from} LIMIT {offset:UInt64}, {limit:UInt32} + 1)
    FORMAT CustomSeparated`
}

/** The rows before a page; no project has so many that the greatest exact number is too small. */
export function offsetOf(page: number, limit: number): number {
  return Math.min((page - 1) * limit, Number.MAX_SAFE_INTEGER)
}

/**
 * The bytes of an answer around the rows of a page, which pass through untouched.
 * @param tail makes what follows the rows; its argument is the mark, null on the last page
 */
export async function* aroundRows(
  rows: Readable,
  head: string,
  tail: (mark: string | null) => string,
): AsyncGenerator<Buffer | string> {
  yield head
  let held: Buffer = Buffer.alloc(0)
  for await (const chunk of rows as AsyncIterable<Buffer>) {
    const bytes = chunk.length > MARK_BYTES ? chunk : Buffer.concat([held, chunk])
    if (bytes === chunk && held.length > 0) yield held
    const end = Math.max(0, bytes.length - MARK_BYTES - 1)
    if (end > 0) yield bytes.subarray(0, end)
    held = bytes.subarray(end)
  }
  const hasMark = held.length > MARK_BYTES && held.at(-1) !== '}'.charCodeAt(0)
  if (!hasMark && held.length > 0) yield held
  yield tail(hasMark ? held.toString('latin1', held.length - MARK_BYTES) : null)
}
