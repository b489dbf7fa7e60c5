import { isTimeZone } from '../../contract/limits.js'
import { NUMBER_FORMATS, type ProjectSettings } from '../../contract/project-settings.js'
import { getProjectSettings } from './project-settings.js'

/**
 * The page is in English, so its numbers and dates are, too, regardless of the browser's language. Only this module may
 * use `Intl`, whose default is the language of the browser.
 */
const LANGUAGE = 'en'
/** Keeps a number on one line. */
const NO_BREAK = '\u00a0'

export interface NumberFormat {
  format(value: number): string
}

/** A format of numbers with the separators of the project. */
export function createNumberFormat(options: Intl.NumberFormatOptions): NumberFormat {
  // Neither -0 nor a number that is rounded to it gets a sign.
  const format = new Intl.NumberFormat(LANGUAGE, { signDisplay: 'negative', ...options })
  return { format: (value) => joinParts(format.formatToParts(value)) }
}

/** Formats such as `3 minutes ago`. */
export const RELATIVE_TIME = {
  format(value: number, unit: Intl.RelativeTimeFormatUnit): string {
    return joinParts(RELATIVE.formatToParts(value, unit))
  },
}

const RELATIVE = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: 'auto' })

interface Separators {
  group: string
  decimal: string
}

/**
 * Each format is an example of itself: its separators are the characters between the first digits and before the last.
 */
const SEPARATORS = Object.fromEntries(
  NUMBER_FORMATS.map((example) => {
    const [, group = '', decimal = ''] = /^1(\D?)234(\D)5$/.exec(example) ?? []
    return [example, { group: group === ' ' ? NO_BREAK : group, decimal }]
  }),
) as Record<ProjectSettings['number_format'], Separators>

function joinParts(parts: readonly { type: string; value: string }[]): string {
  const separators = SEPARATORS[getProjectSettings().number_format]
  const write = ({ type, value }: { type: string; value: string }) =>
    type === 'group' || type === 'decimal' ? separators[type] : value
  return parts.map(write).join('')
}

/** A format of dates and times. @param options with their time zone */
export function createDateFormat(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(LANGUAGE, options)
}

/** A format of instants in the time zone of the project. */
export function createInstantFormat(options: Intl.DateTimeFormatOptions): { format(instant: number): string } {
  let timeZone = ''
  let format: Intl.DateTimeFormat | undefined
  return {
    format(instant) {
      const { timezone } = getProjectSettings()
      if (!format || timeZone !== timezone) format = createKnownFormat({ ...options, timeZone: timezone })
      timeZone = timezone
      return format.format(instant)
    },
  }
}

/** A browser may not know a time zone that the service knows. */
function createKnownFormat(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  try {
    return createDateFormat(options)
  } catch {
    return createDateFormat({ ...options, timeZone: 'UTC' })
  }
}

const COUNTRIES = new Intl.DisplayNames(LANGUAGE, { type: 'region', fallback: 'code' })

/** The name of a country. @param code ISO 3166-1, such as `AT`; anything else is returned unchanged */
export function labelCountry(code: string): string {
  return COUNTRY.test(code) ? (COUNTRIES.of(code) ?? code) : code
}

const COUNTRY = /^[A-Z]{2}$/

/** Chooses the form of a word for a count: `one` event, `other` events. */
export const PLURALS = new Intl.PluralRules(LANGUAGE)

/** The time zones whose names contain a text, in the form that a combobox takes. */
export function suggestTimeZones(text: string): { value: string }[] {
  const typed = text.trim().replaceAll(' ', '_')
  const query = typed.toLowerCase()
  const all = [...new Set(['UTC', ...Intl.supportedValuesOf('timeZone')])]
  const found = all.filter((zone) => zone.toLowerCase().includes(query)).slice(0, 60)
  return (found.length > 0 ? found : findUnlisted(typed, all)).map((value) => ({ value }))
}

/** Browsers list only one name of each zone, such as Asia/Calcutta, but know the others. @param listed the zones listed */
function findUnlisted(typed: string, listed: string[]): string[] {
  const city = typed.replace(/(?<=^|[_/])[a-z]/g, (letter) => letter.toUpperCase())
  const areas = new Set(listed.filter((zone) => zone.includes('/')).map((zone) => zone.replace(/\/.*/, '')))
  const names = city.includes('/') ? [city] : [...areas].map((area) => `${area}/${city}`)
  return names.filter(isTimeZone)
}
