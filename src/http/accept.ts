import { FORMATS, type Format, MEDIA_TYPES } from '../contract/formats.js'

interface Range {
  type: string
  /** 0 (not acceptable) to 1 */
  quality: number
  /** index in the header */
  place: number
}

/**
 * The format that an Accept header prefers (RFC 9110, 12.5.1): highest quality first, then the
 * most specific range, then the order in the header. JSON if nothing matches, as the RFC allows.
 */
export function acceptedFormat(accept = '*/*'): Format {
  const ranges = accept.split(',').map(parseRange)
  const offers = FORMATS.flatMap((format) => {
    const range = mostSpecific(ranges, MEDIA_TYPES[format].names)
    return range && range.quality > 0 ? [{ format, ...range }] : []
  })
  offers.sort((a, b) => b.quality - a.quality || specificity(b) - specificity(a) || a.place - b.place)
  return offers[0]?.format ?? 'json'
}

/** A malformed quality counts as 0. */
function parseRange(text: string, place: number): Range {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const quality = parameters.find((parameter) => /^q\s*=/.test(parameter))?.replace(/^q\s*=\s*/, '') ?? '1'
  return { type, quality: /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(quality) ? Number(quality) : 0, place }
}

function mostSpecific(ranges: Range[], names: string[]): Range | undefined {
  const wanted = (range: Range) =>
    range.type === '*/*' || names.some((name) => range.type === name || range.type === name.replace(/\/.*/, '/*'))
  return ranges.filter(wanted).sort((a, b) => specificity(b) - specificity(a) || a.place - b.place)[0]
}

function specificity({ type }: Range): number {
  if (type === '*/*') return 0
  return type.endsWith('/*') ? 1 : 2
}
