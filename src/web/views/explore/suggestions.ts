import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { FieldName, Scalar } from '../../../contract/questions.js'
import { listEventNames, listProperties, listValues } from '../../api/schema.js'
import { listUsers } from '../../api/users.js'
import { type Choice, filterChoices, MAX_CHOICES } from '../../lib/choices.js'
import { formatField, formatValue, toField } from '../../lib/fields.js'
import { formatCompact, formatShare } from '../../lib/format.js'

const MAX_AGE_MS = 30_000
/** Number of profiles sampled for user properties, because the service does not list those. */
const PROFILES = 50

/** Suggests events, fields and values of a project. */
export class Suggestions {
  readonly #cache = new Map<string, { at: number; answer: Promise<unknown> }>()

  /** The events that match a text, the most frequent first. */
  async suggestEvents(text: string): Promise<Choice[]> {
    const { events } = await this.#once('events', listEventNames)
    return filterChoices(
      text,
      events.map(({ event, count }) => ({ value: event, note: formatCompact(count) })),
    )
  }

  /** Properties of an event, or of all events, then built-in fields and user properties. */
  async suggestFields(event: string, text: string): Promise<Choice[]> {
    const [properties, users] = await Promise.all([this.#properties(event), this.#userProperties()])
    const plain = ['event', 'distinct_id', 'timestamp'].map((value): Choice => ({ value, note: 'of all events' }))
    const ofUsers = users.map(
      (name): Choice => ({ value: formatField(toField('user', name)), note: 'of the user now' }),
    )
    return filterChoices(text, [...properties, ...plain, ...ofUsers])
  }

  async #properties(event: string): Promise<Choice[]> {
    const name = toEventFilter(event)
    const { properties } = await this.#once(`properties of ${name}`, () => listProperties(name))
    return properties.map(({ property, share, types }) => ({
      value: formatField(toField('properties', property)),
      note: `${types[0]?.type ?? ''}, ${formatShare(share)}`,
    }))
  }

  async #userProperties(): Promise<string[]> {
    const { users } = await this.#once('users', () => listUsers({ limit: PROFILES }))
    return [...new Set(users.flatMap(({ properties }) => Object.keys(properties)))].sort()
  }

  /** The values of a field in input syntax, the most frequent first. */
  async suggestValues(field: FieldName, event: string, text: string, signal: AbortSignal): Promise<Choice[]> {
    const query = { field: formatField(field), event: toEventFilter(event), search: text, limit: MAX_CHOICES }
    const values = await listValues(query, signal)
    return values.flatMap(({ text, count }) => {
      const value: unknown = JSON.parse(text)
      const isPlain = value === null || typeof value !== 'object'
      return isPlain ? [{ value: formatValue(value as Scalar), note: formatCompact(count) }] : []
    })
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

/** The event filter for listing properties; empty for all events. */
function toEventFilter(event: string): string {
  return event === '*' ? '' : event
}

/** The suggestions of the current project. */
export const SuggestionsContext = createContext<Suggestions | null>(null)

export function useSuggestions(): Suggestions {
  const suggestions = useContext(SuggestionsContext)
  if (!suggestions) throw new Error('there is no project')
  return suggestions
}
