/**
 * The page is in English, so its numbers and dates are, too, whatever the language of the browser. Only this module may
 * use `Intl`, whose default is the language of the browser.
 */
const LANGUAGE = 'en'

export type NumberFormat = Intl.NumberFormat

export function createNumberFormat(options: Intl.NumberFormatOptions): NumberFormat {
  return new Intl.NumberFormat(LANGUAGE, options)
}

export function createDateFormat(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(LANGUAGE, options)
}

/** Formats such as `3 minutes ago`. */
export const RELATIVE_TIME = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: 'auto' })

/** Which form of a word goes with a count: `one` event, `other` events. */
export const PLURALS = new Intl.PluralRules(LANGUAGE)

/** Formats dates as `2026-05-01`. @throws RangeError if the time zone is unknown */
export function createIsoDateFormat(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-CA', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' })
}

/** The time zone of the browser. */
export function getBrowserTimeZone(): string {
  return new Intl.DateTimeFormat(LANGUAGE).resolvedOptions().timeZone
}

/** The names of all time zones. */
export function listTimeZones(): string[] {
  return Intl.supportedValuesOf('timeZone')
}
