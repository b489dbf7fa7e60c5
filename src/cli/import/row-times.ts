import { checkDigits, SHORTENED, timestampText } from '../../vendors/row.js'
import { parseDecimal, type TimeFormat, toMilliseconds } from '../../vendors/time.js'
import { localMilliseconds } from './local-time.js'

/** A time as it is written in an input. */
export interface WrittenTime {
  /** of a JSON value */
  text: string
  line: number
}

/** From 1990 to 2100, in seconds. */
const FIRST_SECOND = 631_152_000
const LAST_SECOND = 4_102_444_800
/** In milliseconds this is a time in 1973; in seconds, one in the year 5138. */
export const FIRST_PLAUSIBLE_MS = 1e11
const LAST_MS = 1e13
const SHOWN = 100
/** A format must match this many times more values than any other format. */
const MAJORITY = 9

export const TIME_NAMES: Record<TimeFormat, string> = {
  iso: 'ISO 8601',
  s: 'seconds since 1970',
  ms: 'milliseconds since 1970',
  us: 'microseconds since 1970',
  ns: 'nanoseconds since 1970',
}

/**
 * Guesses the format of an input's times. Values that no format matches do not count, and up to one in ten may match
 * another format; such rows are rejected later.
 * @param times times in the input's head
 * @returns undefined if there are none
 * @throws Error with a sentence for the user if they have several formats, or the format is ambiguous
 */
export function guessTimeFormat(times: readonly WrittenTime[]): TimeFormat | undefined {
  const found = new Map<TimeFormat, WrittenTime[]>()
  for (const time of times) {
    const format = detectFormat(readContent(time.text))
    if (format) found.set(format, [...(found.get(format) ?? []), time])
  }
  const [most, second] = [...found].sort(([, some], [, others]) => others.length - some.length)
  if (most && second && second[1].length * MAJORITY > most[1].length) {
    const words = [most, second].map(
      ([format, [first]]) => `${truncate(first?.text)} in line ${first?.line} is in ${TIME_NAMES[format]}`,
    )
    throw new Error(
      `The times are in several formats: ${words.join(', ')}. Choose one with --time; the other rows are rejected.`,
    )
  }
  if (most) return most[0]
  const small = times.find(({ text }) => parseDecimal(readContent(text)) !== null && !SHORTENED.test(readContent(text)))
  if (!small) return undefined
  throw new Error(
    `The first timestamp of the input is ${truncate(small.text)}, which is before 1973 in milliseconds: --time s reads seconds, --time ms keeps it unchanged.`,
  )
}

/** Detects the format of a time; null if that is impossible. */
function detectFormat(content: string): TimeFormat | null {
  const number = SHORTENED.test(content) ? null : parseDecimal(content)
  if (number === null) return toMilliseconds(content, 'iso') === null ? null : 'iso'
  const isIn = (scale: number) => number >= FIRST_SECOND * scale && number <= LAST_SECOND * scale
  if (isIn(1)) return 's'
  if (number >= FIRST_PLAUSIBLE_MS && number < LAST_MS) return 'ms'
  return isIn(1e6) ? 'us' : isIn(1e9) ? 'ns' : null
}

/**
 * Converts a time to milliseconds, as the text of a JSON number.
 * @param text of a JSON value
 * @param zone zone of times without one; undefined for UTC
 * @throws RowFault if it is not a time in this format
 */
export function timeText(
  text: string,
  format: TimeFormat,
  zone: string | undefined,
  isTable: boolean,
): string | undefined {
  const content = readContent(text)
  if (isTable) checkDigits(content)
  if (format !== 'iso' || zone === undefined || !text.startsWith('"')) return timestampText(text, format)
  const ms = localMilliseconds(content, zone)
  return ms === null ? timestampText(text, format) : String(ms)
}

function readContent(text: string): string {
  return (text.startsWith('"') ? (JSON.parse(text) as string) : text).trim()
}

function truncate(text = ''): string {
  return text.slice(0, SHOWN)
}
