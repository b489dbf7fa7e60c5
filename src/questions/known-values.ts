import { CONTEXT_TEXTS, DEVICES } from '../contract/context.js'
import { splitField } from '../contract/filters.js'
import { PAGE_NAMES } from '../contract/page-fields.js'
import type { FieldName, Scalar } from '../contract/questions.js'
import type { PropertyType } from '../contract/responses.js'
import type { Warning } from '../contract/warning.js'
import { createNearestFinder } from '../lib/nearest.js'
import { CHANNELS } from './channels.js'
import { isEventOfSession, toField } from './field-name.js'

/** The values that a set field can have. */
interface KnownValues {
  type: PropertyType
  has(value: Scalar): boolean
  /** describes the values; follows the name of the field in a sentence */
  description: string
  /** the value that was probably meant instead of a wrong one */
  suggest(value: Scalar): Scalar | undefined
}

/** A comparison of a field with a value as a whole. */
export interface ValueUse {
  /** a JSON pointer to the value in the question as it was sent */
  path: string
  field: FieldName
  value: Scalar
}

/** The use of a field of any kind. */
export interface FieldUse {
  /** a JSON pointer to the field in the question as it was sent */
  path: string
  field: FieldName
  /** the types of the values that count or match; null for any */
  types: readonly PropertyType[] | null
  /** whether the field is used only with sessions as events */
  isOfSessions: boolean
}

/** Singular and plural of a type in messages. */
export const TYPE_NAMES: Record<PropertyType, [one: string, several: string]> = {
  string: ['a string', 'strings'],
  number: ['a number', 'numbers'],
  boolean: ['a boolean', 'booleans'],
  array: ['an array', 'arrays'],
  object: ['an object', 'objects'],
}

const STRINGS: KnownValues = {
  type: 'string',
  has: (value) => typeof value === 'string',
  description: 'is a string',
  suggest: (value) => (typeof value === 'number' ? String(value) : undefined),
}

const NUMBERS: KnownValues = {
  type: 'number',
  has: (value) => typeof value === 'number',
  description: 'is a number',
  suggest: (value) => (isNumeric(value) ? Number(value) : undefined),
}

/** Codes that have a name, but do not stand for a country. */
const NO_COUNTRIES = ['EU', 'EZ', 'QO', 'UN', 'XA', 'XB', 'ZZ']
let countries: ReadonlyMap<string, string> | undefined

const COUNTRIES: KnownValues = {
  type: 'string',
  // Databases of addresses also have codes of regions, such as EU, and any two capital letters can be sent.
  has: (value) => typeof value === 'string' && /^[A-Z]{2}$/.test(value),
  description: 'is two capital letters, as in ISO 3166-1',
  suggest: suggestCountry,
}

/** By field, without the event of a session that it is taken from. */
const KNOWN: Record<string, KnownValues> = {
  ...Object.fromEntries(
    [
      ...['event', 'distinct_id', 'session.id'],
      ...PAGE_NAMES.map((name) => `page.${name}`),
      ...CONTEXT_TEXTS.map((name) => `context.${name}`),
    ].map((name) => [name, STRINGS]),
  ),
  timestamp: NUMBERS,
  'page.channel': listed([...new Set(CHANNELS.values)].sort()),
  'context.device': listed(DEVICES),
  'context.country': COUNTRIES,
  'context.bot': { ...listed([true]), description: 'is true or not set' },
  'session.bounced': listed([true, false]),
  'session.state': listed(['active', 'completed']),
  ...Object.fromEntries(
    ['start', 'seconds', 'events', 'pages', 'duration'].map((name) => [`session.${name}`, NUMBERS]),
  ),
}

/** Warns of values that a field never has. */
export function warnOfUnknownValues(uses: readonly ValueUse[]): Warning[] {
  return uses.flatMap(({ path, field, value }) => {
    const known = findKnownValues(field)
    if (!known || value === null || known.has(value)) return []
    const suggestion = known.suggest(value)
    const hint = suggestion === undefined ? '' : ` Did you mean ${quote(suggestion)}?`
    const name = splitField(field).join('.')
    const message = `The field “${name}” never has the value ${quote(value)}: it ${known.description}.${hint}`
    return [{ path, message, ...(suggestion !== undefined && { suggestion }) }]
  })
}

/** Warns of fields that cannot have a value that counts or matches. */
export function warnOfUses(uses: readonly FieldUse[]): Warning[] {
  return uses.flatMap(({ path, field, types, isOfSessions }) => {
    const [source, ...names] = splitField(field)
    if (isOfSessions && source === 'properties') {
      const suggestion = toField('session', ['first', source, ...names])
      const meant = typeof suggestion === 'string' ? quote(suggestion) : JSON.stringify(suggestion)
      const message = `A session has no properties. Did you mean ${meant}, or a filter by session_has?`
      return [{ path, message, suggestion }]
    }
    const known = findKnownValues(field)
    if (!known || types === null || types.includes(known.type)) return []
    const wanted = types.map((type) => TYPE_NAMES[type][0]).join(' or ')
    const message = `The field “${splitField(field).join('.')}” is never ${wanted}: it ${known.description}.`
    return [{ path, message }]
  })
}

function findKnownValues(field: FieldName): KnownValues | undefined {
  const [source = '', which = '', ...path] = splitField(field)
  const name = (isEventOfSession(source, which) ? path : splitField(field)).join('.')
  return Object.hasOwn(KNOWN, name) ? KNOWN[name] : undefined
}

function listed(values: readonly Scalar[]): KnownValues {
  const nearest = createNearestFinder(values.map(String))
  return {
    type: typeof values[0] as PropertyType,
    has: (value) => values.includes(value),
    description: `is ${values
      .map(String)
      .join(', ')
      .replace(/, ([^,]+)$/, ' or $1')}`,
    suggest: (value) => {
      const text = values.map(String).find((one) => one === String(value)) ?? nearest(String(value))
      return values.find((one) => String(one) === text)
    },
  }
}

/** The English names of countries by their codes. */
function listCountries(): ReadonlyMap<string, string> {
  if (countries) return countries
  const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']
  const names = new Intl.DisplayNames('en', { type: 'region', fallback: 'none' })
  const codes = letters.flatMap((first) => letters.map((second) => `${first}${second}`))
  countries = new Map(
    codes
      // The canonical form of a withdrawn code, such as that of the Soviet Union, is another code.
      .filter((code) => !NO_COUNTRIES.includes(code) && toCanonical(code) === code)
      .flatMap((code) => {
        const name = names.of(code)
        return name === undefined ? [] : [[code, name] as const]
      }),
  )
  return countries
}

function suggestCountry(value: Scalar): string | undefined {
  const text = String(value)
  if (/^[a-z]{2}$/i.test(text)) {
    const code = toCanonical(text)
    return listCountries().has(code) ? code : undefined
  }
  const byName = new Map([...listCountries()].map(([code, name]) => [name, code]))
  return byName.get(text) ?? byName.get(createNearestFinder(byName.keys())(text) ?? '')
}

function toCanonical(code: string): string {
  return new Intl.Locale(`und-${code}`).region ?? code
}

function isNumeric(value: Scalar): boolean {
  return typeof value === 'string' && value.trim() !== '' && Number.isFinite(Number(value))
}

function quote(value: Scalar): string {
  return typeof value === 'string' ? `“${value}”` : String(value)
}
