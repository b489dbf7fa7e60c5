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

/** The time zone of the browser. */
export function getBrowserTimeZone(): string {
  return new Intl.DateTimeFormat(LANGUAGE).resolvedOptions().timeZone
}

/** The time zones whose names contain a text, in the form that a combobox takes. */
export function suggestTimeZones(text: string): { value: string }[] {
  const query = text.toLowerCase().replaceAll(' ', '_')
  return ['UTC', ...Intl.supportedValuesOf('timeZone')]
    .filter((zone, i, all) => all.indexOf(zone) === i && zone.toLowerCase().includes(query))
    .slice(0, 60)
    .map((value) => ({ value }))
}
