import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { FieldName } from '../../contract/questions.js'
import { call } from '../api/call.js'
import type { Choice } from '../ui/combobox.js'
import { fieldIn, fieldText, valueText } from './fields.js'
import { compactText, shareText } from './format.js'

const MAX_CHOICES = 50
const MAX_AGE_MS = 30_000

interface PropertyName {
  property: string
  share: number
  types: { type: string }[]
}

/** What there is to ask about in a project, to complete what is typed. */
export class Names {
  readonly #kept = new Map<string, { at: number; answer: Promise<unknown> }>()

  /** The events that match a text, the most frequent first. */
  async events(text: string): Promise<Choice[]> {
    const path = '/public/schema/events'
    const { events } = await this.#get<{ events: { event: string; count: number }[] }>(path)
    return matching(text, events, ({ event, count }) => ({ value: event, note: compactText(count) }))
  }

  /** The properties of an event, or of all; then the fields that all events have, and users' properties. */
  async fields(event: string, text: string): Promise<Choice[]> {
    const [properties, users] = await Promise.all([this.#properties(event), this.#userProperties()])
    const plain = ['event', 'distinct_id', 'timestamp'].map((value): Choice => ({ value, note: 'of all events' }))
    const ofUsers = users.map((name): Choice => ({ value: fieldText(fieldIn('user', name)), note: 'of the user now' }))
    return matching(text, [...properties, ...plain, ...ofUsers], (choice) => choice)
  }

  async #properties(event: string): Promise<Choice[]> {
    const query = event === '' || event === '*' ? '' : `?${new URLSearchParams({ event })}`
    const { properties } = await this.#get<{ properties: PropertyName[] }>(`/public/schema/properties${query}`)
    return properties.map(({ property, share, types }) => ({
      value: fieldText(fieldIn('properties', property)),
      note: `${types[0]?.type ?? ''}, ${shareText(share)}`,
    }))
  }

  /** Of the latest profiles: there is no list of all. */
  async #userProperties(): Promise<string[]> {
    const { users } = await this.#get<{ users: { properties: object }[] }>('/public/users?limit=50')
    return [...new Set(users.flatMap(({ properties }) => Object.keys(properties)))].sort()
  }

  /** The values of a field as they are typed, the most frequent first. */
  async values(field: FieldName, event: string, text: string, signal: AbortSignal): Promise<Choice[]> {
    const ofEvent = event === '' || event === '*' ? {} : { event }
    const search = text === '' ? {} : { search: text }
    const query = new URLSearchParams({ field: fieldText(field), ...ofEvent, ...search, limit: String(MAX_CHOICES) })
    const path = `/public/schema/values?${query}`
    const { values } = await call<{ values: { value: unknown; count: number }[] }>('GET', path, undefined, signal)
    return values.flatMap(({ value, count }) => {
      const isPlain = value === null || typeof value !== 'object'
      return isPlain ? [{ value: valueText(value as string), note: compactText(count) }] : []
    })
  }

  #get<T>(path: string): Promise<T> {
    const kept = this.#kept.get(path)
    if (kept && Date.now() - kept.at < MAX_AGE_MS) return kept.answer as Promise<T>
    const answer = call<T>('GET', path)
    this.#kept.set(path, { at: Date.now(), answer })
    answer.catch(() => this.#kept.delete(path))
    return answer
  }
}

function matching<T>(text: string, all: T[], choiceOf: (one: T) => Choice): Choice[] {
  const wanted = text.toLowerCase()
  return all
    .map(choiceOf)
    .filter(({ value }) => value.toLowerCase().includes(wanted))
    .slice(0, MAX_CHOICES)
}

/** The names of the project whose question is being written. */
export const NamesContext = createContext<Names | null>(null)

export function useNames(): Names {
  const names = useContext(NamesContext)
  if (!names) throw new Error('there is no project')
  return names
}
