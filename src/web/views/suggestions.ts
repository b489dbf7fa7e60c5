import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import { type FieldName, splitField } from '../../contract/filters.js'
import type { PropertyType } from '../../contract/responses.js'
import { listEventNames, listProperties, listValues } from '../api/schema.js'
import { type ListedUser, listUsers } from '../api/users.js'
import { type Choice, filterChoices, filterEvents, MAX_CHOICES } from '../lib/choices.js'
import { formatField, formatValue, isScalar, NUMBER_FIELDS, toField } from '../lib/fields.js'
import { formatCompact, formatShare } from '../lib/format.js'
import {
  flattenProperties,
  type ListedProperty,
  listUserProperties,
  mergeProperties,
} from '../lib/listed-properties.js'

const MAX_AGE_MS = 30_000
/** Number of profiles sampled for user properties, because the service does not list those. */
const PROFILES = 50
/** For more events than this, the properties of all events are listed. */
const MAX_EVENTS = 5

const TYPE_LABELS: Record<PropertyType, string> = {
  string: 'text',
  number: 'number',
  boolean: 'true or false',
  array: 'list',
  object: 'object',
}

const BUILT_IN = ['event', 'distinct_id', 'timestamp'] as const

/** Which fields to suggest. */
export interface FieldsWanted {
  /** names of the events that have them; empty for any */
  events: readonly string[]
  /** whether they must be numbers */
  areNumbers?: boolean
}

/** Suggests events, fields and values of a project. */
export class Suggestions {
  readonly #cache = new Map<string, { at: number; answer: Promise<unknown> }>()

  /** The events that match a text, the most frequent first. @param more choices that come after them, if any */
  async suggestEvents(text: string, more: readonly Choice[] = []): Promise<Choice[]> {
    const { events } = await this.#once('events', listEventNames)
    return filterEvents(text, events, events.length > 0 ? more : [])
  }

  /** The properties that match a text, named without their source. @param event only events of this name; all if empty */
  async suggestProperties(event: string, text: string): Promise<Choice[]> {
    const properties = await this.#properties(event)
    return filterChoices(
      text,
      properties.map(({ names, share }) => ({ value: names.join('.'), note: formatShare(share) })),
    )
  }

  /**
   * Properties of the events, then built-in fields, user properties and fields of pages, senders and sessions, and at
   * the end those that do not fit.
   */
  async suggestFields({ events, areNumbers = false }: FieldsWanted, text: string): Promise<Choice[]> {
    const named = events.length <= MAX_EVENTS ? events : []
    const [all, fields, ofUsers, ...ofNamed] = await Promise.all([
      this.#properties(''),
      this.#fields(),
      this.#userProperties(),
      ...named.map((event) => this.#properties(event)),
    ])
    const own = mergeProperties(named.length > 0 ? ofNamed : [all])
    const has = new Set(own.map(({ names }) => JSON.stringify(names)))
    const others = all.filter(({ names }) => !has.has(JSON.stringify(names)))
    const findMisfit = ([type = 'string', ...more]: readonly PropertyType[]) =>
      areNumbers && ![type, ...more].includes('number') ? `${labelType([type])}, not a number` : undefined
    const toChoice = (field: FieldName, name: string, note: string, unfit: string | undefined): Choice => {
      return { value: formatField(field), name, note, ...(unfit !== undefined && { unfit }) }
    }
    return filterChoices(text, [
      ...own.map(({ names, share, types }) => {
        const note = `${labelType(types)}, ${formatShare(share)}`
        return toChoice(toField('properties', names), names.join('.'), note, findMisfit(types))
      }),
      ...BUILT_IN.map((name) => {
        return toChoice(name, name, 'of all events', findMisfit([NUMBER_FIELDS.includes(name) ? 'number' : 'string']))
      }),
      ...ofUsers.map(({ names, types }) => {
        const note = `${labelType(types)}, of the user now`
        return toChoice(toField('user', names), names.join('.'), note, findMisfit(types))
      }),
      ...fields.map((name) => {
        const [source = ''] = splitField(name)
        const misfit = findMisfit([NUMBER_FIELDS.includes(name) ? 'number' : 'string'])
        // Use the whole name, so that a property of the same name comes first.
        return toChoice(name, name, `of the ${source}`, misfit)
      }),
      ...others.map(({ names, types }) => {
        const unfit = `${labelType(types)}, not in ${named.join(' or ')}`
        return toChoice(toField('properties', names), names.join('.'), '', unfit)
      }),
    ])
  }

  async #properties(event: string): Promise<ListedProperty[]> {
    const { properties } = await this.#once(`properties of ${event}`, () => listProperties(event))
    return flattenProperties(properties)
  }

  async #fields(): Promise<string[]> {
    return (await this.#once('properties of ', () => listProperties(''))).fields
  }

  async #userProperties(): Promise<ListedProperty[]> {
    return listUserProperties((await this.sampleUsers()).map(({ properties }) => properties))
  }

  /** The users that were seen last, with their profiles. */
  protected async sampleUsers(): Promise<ListedUser[]> {
    return (await this.#once('users', () => listUsers({ limit: PROFILES }))).users
  }

  /**
   * The values of fields that match a text, the most frequent first, each once.
   * @param event only events of this name; all if empty
   * @param format formats the JSON of a value as it is typed; null leaves it out
   */
  async suggestValues(
    fields: readonly FieldName[],
    event: string,
    text: string,
    signal: AbortSignal,
    format: (json: string) => string | null = formatPlain,
  ): Promise<Choice[]> {
    const lists = fields.map((field) => {
      return listValues({ field: formatField(field), event, search: text, limit: MAX_CHOICES }, signal)
    })
    const choices = new Map<string, Choice>()
    for (const { text, count } of (await Promise.all(lists)).flat()) {
      const value = format(text)
      if (value !== null && !choices.has(value)) choices.set(value, { value, note: formatCompact(count) })
    }
    return filterChoices(text, [...choices.values()])
  }

  #once<T>(key: string, read: () => Promise<T>): Promise<T> {
    const cached = this.#cache.get(key)
    if (cached && Date.now() - cached.at < MAX_AGE_MS) return cached.answer as Promise<T>
    const answer = read()
    this.#cache.set(key, { at: Date.now(), answer })
    answer.catch(() => this.#cache.delete(key))
    return answer
  }
}

/** Formats a value for a text field; null for lists and objects. */
export function formatPlain(json: string): string | null {
  const value: unknown = JSON.parse(json)
  return isScalar(value) ? formatValue(value) : null
}

/** Like `formatPlain`, but only for texts: comparing a part of a value, such as `contains`, matches no others. */
export function formatPlainText(json: string): string | null {
  return json.startsWith('"') ? formatPlain(json) : null
}

function labelType([type = 'string']: readonly PropertyType[]): string {
  return TYPE_LABELS[type]
}

/** The suggestions of the current project. */
export const SuggestionsContext = createContext<Suggestions | null>(null)

export function useSuggestions(): Suggestions {
  const suggestions = useContext(SuggestionsContext)
  if (!suggestions) throw new Error('there is no project')
  return suggestions
}
