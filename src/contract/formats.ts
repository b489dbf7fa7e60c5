/** The formats in which events can be read. */
export const FORMATS = ['json', 'ndjson', 'csv', 'parquet'] as const
export type Format = (typeof FORMATS)[number]

/** A format of rows only, without an envelope around them. */
export type RowFormat = Exclude<Format, 'json'>
export const ROW_FORMATS = ['ndjson', 'csv', 'parquet'] as const satisfies readonly RowFormat[]

interface MediaType {
  /** content type of a response */
  contentType: string
  /** names in a request's Accept header: the registered one and others in use */
  names: string[]
}

export const MEDIA_TYPES: Record<Format, MediaType> = {
  json: { contentType: 'application/json; charset=utf-8', names: ['application/json'] },
  ndjson: {
    contentType: 'application/x-ndjson; charset=utf-8',
    names: ['application/x-ndjson', 'application/ndjson', 'application/jsonl', 'application/x-jsonlines'],
  },
  csv: { contentType: 'text/csv; charset=utf-8; header=present', names: ['text/csv'] },
  parquet: {
    contentType: 'application/vnd.apache.parquet',
    names: ['application/vnd.apache.parquet', 'application/x-parquet', 'application/parquet'],
  },
}
