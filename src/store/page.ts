import { pipeline, type Readable, Transform } from 'node:stream'
import type { ClickHouseSettings } from '../clickhouse/parameters.js'

/** The id of the next page has a fixed length, so that it can be cut from the end of a stream without parsing. */
const MARK_BYTES = 36
const MARK = /^[0-9a-f-]{36}$/

/** Rows verbatim, with commas between them. */
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

/** Otherwise, ClickHouse may find all row numbers before it reads the first row, which is slower. */
export const IN_ORDER: ClickHouseSettings = { query_plan_optimize_lazy_materialization: 0 }

/**
 * ClickHouse sends rows while it reads more. An error within the first 64 KiB still fails the call; a later one breaks
 * the stream.
 */
export const STREAMED: ClickHouseSettings = { ...IN_ORDER, http_response_buffer_size: String(64 * 1024) }

/** Replaces line breaks with spaces. JSON strings have only escaped ones, so this changes nothing within strings. */
export const ONE_LINE = String.raw`translate(properties, '\r\n', '  ')`

/**
 * Builds a query for `{limit:UInt32}` rows after the first `{offset:UInt64}`, each as JSON. If there is one more row,
 * only its id follows, so the end of the stream shows whether there is a next page and where it starts.
 *
 * @param json an expression for the JSON text of an object
 * @param nextId an expression for a text of exactly 36 hexadecimal digits and hyphens
 * @param from an ordered SELECT of the columns that the two need
 */
export function buildPageQuery({ json, nextId, from }: { json: string; nextId: string; from: string }): string {
  return `
    SELECT if(rowNumberInAllBlocks() < {limit:UInt32}, ${json}, ${nextId})
    FROM (${from} LIMIT {offset:UInt64}, {limit:UInt32} + 1)
    FORMAT CustomSeparated`
}

/** The number of rows before a page, at most the greatest exact integer. */
export function toOffset(page: number, limit: number): number {
  return Math.min((page - 1) * limit, Number.MAX_SAFE_INTEGER)
}

/**
 * Wraps the rows of a page, which pass through untouched, into the rest of the response.
 * @param tail returns the text after the rows; its argument is the first id of the next page, null on the last page. If
 *   it throws, the transfer breaks off
 */
export function wrapRows(rows: Readable, head: string, tail: (nextId: string | null) => string): Readable {
  let held: Buffer = Buffer.alloc(0)
  const around = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const bytes = chunk.length > MARK_BYTES ? chunk : Buffer.concat([held, chunk])
      if (bytes === chunk && held.length > 0) this.push(held)
      // Hold back only as many bytes as the id and the comma before it can have.
      const heldFrom = Math.max(bytes.length - MARK_BYTES - 1, 0)
      if (heldFrom > 0) this.push(bytes.subarray(0, heldFrom))
      held = bytes.subarray(heldFrom)
      done()
    },
    flush(done) {
      const hasMark = held.length > MARK_BYTES && held.at(-1) !== '}'.charCodeAt(0)
      const end = hasMark ? held.length - MARK_BYTES : held.length
      const mark = hasMark ? held.toString('latin1', end) : null
      if (mark !== null && !MARK.test(mark)) return done(new Error('the page ends in the middle of a row'))
      try {
        const rest = tail(mark)
        // There is a comma between the last row and the next id.
        done(null, Buffer.concat([held.subarray(0, hasMark ? end - 1 : end), Buffer.from(rest)]))
      } catch (error) {
        done(error instanceof Error ? error : new Error(String(error)))
      }
    },
  })
  around.push(head)
  return pipeline(rows, around, () => undefined)
}
