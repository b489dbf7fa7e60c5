/**
 * The context of a request: its browser and device, and the place that it came from. It is stored with events and
 * sessions, and never holds an address.
 */

export const DEVICES = ['desktop', 'mobile', 'tablet', 'tv', 'console', 'other'] as const

/** How much of a context is kept: nothing, without the place, or everything. */
export const CONTEXT_MODES = ['off', 'device', 'full'] as const
export type ContextMode = (typeof CONTEXT_MODES)[number]

export interface Context {
  browser?: string
  /** at most two numbers, such as `17.5` */
  browser_version?: string
  os?: string
  /** at most two numbers, such as `10.15` */
  os_version?: string
  device?: (typeof DEVICES)[number]
  /** ISO 3166-1, two letters */
  country?: string
  region?: string
  city?: string
  /** BCP 47, such as `de-AT` */
  language?: string
  /** absent unless it is a bot */
  bot?: boolean
}

/** The string fields, in the order in which a context is written; `bot` follows. */
export const CONTEXT_TEXTS = [
  'browser',
  'browser_version',
  'os',
  'os_version',
  'device',
  'country',
  'region',
  'city',
  'language',
] as const satisfies readonly (keyof Context)[]

/** A context as a caller sends it: null counts as absent, as everywhere. */
export type GivenContext = { [Field in keyof Context]?: Context[Field] | null | undefined }

/** The version as it is stored: its first two numbers, one if the second is 0; empty if there are none. */
export function shortenVersion(version = ''): string {
  return /^\d{1,6}(?:\.\d{1,6})?/.exec(version)?.[0].replace(/\.0+$/, '') ?? ''
}

/**
 * Spells a language as it is stored, such as `de-AT` or `zh-Hant-TW`.
 * @param tag BCP 47 in any case, or a locale such as `de_AT`
 */
export function spellLanguage(tag: string): string {
  const [language = '', ...parts] = tag.replaceAll('_', '-').split('-')
  const spelled = parts.map((part) => {
    if (part.length === 2) return part.toUpperCase()
    return part.length === 4 ? part.charAt(0).toUpperCase() + part.slice(1).toLowerCase() : part
  })
  return [language.toLowerCase(), ...spelled].join('-')
}

/** The fields that are set, in order. */
export function trimContext(given: GivenContext): Context {
  const context: Record<string, string | true> = {}
  for (const field of CONTEXT_TEXTS) {
    const value = given[field]
    if (value) context[field] = value
  }
  if (given.bot) context.bot = true
  return context as Context
}
