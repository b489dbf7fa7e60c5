/** The forms in which events are given out. */
export const FORMATS = ['json', 'ndjson', 'csv', 'parquet'] as const
export type Format = (typeof FORMATS)[number]

/** A form of rows alone, without an envelope around them. */
export type RowFormat = Exclude<Format, 'json'>

interface MediaType {
  /** of an answer */
  contentType: string
  /** in a request's Accept: the registered name, and others that are in use */
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

interface Range {
  type: string
  /** 0, which is none, to 1 */
  quality: number
  /** in the header */
  place: number
}

/**
 * The format that an Accept header prefers (RFC 9110, 12.5.1): among those of the highest quality the one that is named
 * most precisely, then the one named first. JSON where nothing fits, as the RFC allows.
 */
export function acceptedFormat(accept = '*/*'): Format {
  const ranges = accept.split(',').map(parseRange)
  const offers = FORMATS.flatMap((format) => {
    const range = mostPrecise(ranges, MEDIA_TYPES[format].names)
    return range && range.quality > 0 ? [{ format, ...range }] : []
  })
  offers.sort((a, b) => b.quality - a.quality || precision(b) - precision(a) || a.place - b.place)
  return offers[0]?.format ?? 'json'
}

/** A quality that cannot be read counts as none. */
function parseRange(text: string, place: number): Range {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const quality = parameters.find((parameter) => /^q\s*=/.test(parameter))?.replace(/^q\s*=\s*/, '') ?? '1'
  return { type, quality: /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(quality) ? Number(quality) : 0, place }
}

function mostPrecise(ranges: Range[], names: string[]): Range | undefined {
  const wanted = (range: Range) =>
    range.type === '*/*' || names.some((name) => range.type === name || range.type === name.replace(/\/.*/, '/*'))
  return ranges.filter(wanted).sort((a, b) => precision(b) - precision(a) || a.place - b.place)[0]
}

function precision({ type }: Range): number {
  if (type === '*/*') return 0
  return type.endsWith('/*') ? 1 : 2
}
