import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { FieldName, Scalar } from '../../../contract/questions.js'
import { readEventNames, readProperties, readValues } from '../../api/schema.js'
import { searchUsers } from '../../api/users.js'
import { type Choice, MAX_CHOICES, matching } from '../../lib/choices.js'
import { fieldIn, fieldText, valueText } from '../../lib/fields.js'
import { compactText, shareText } from '../../lib/format.js'

const MAX_AGE_MS = 30_000
/** Profiles whose properties are offered: there is no list of all. */
const PROFILES = 50

/** What there is to ask about in a project, to complete what is typed. */
export class Names {
  readonly #kept = new Map<string, { at: number; answer: Promise<unknown> }>()

  /** The events that match a text, the most frequent first. */
  async events(text: string): Promise<Choice[]> {
    const { events } = await this.#once('events', readEventNames)
    return matching(
      text,
      events.map(({ event, count }) => ({ value: event, note: compactText(count) })),
    )
  }

  /** The properties of an event, or of all; then the fields that all events have, and users' properties. */
  async fields(event: string, text: string): Promise<Choice[]> {
    const [properties, users] = await Promise.all([this.#properties(event), this.#userProperties()])
    const plain = ['event', 'distinct_id', 'timestamp'].map((value): Choice => ({ value, note: 'of all events' }))
    const ofUsers = users.map((name): Choice => ({ value: fieldText(fieldIn('user', name)), note: 'of the user now' }))
    return matching(text, [...properties, ...plain, ...ofUsers])
  }

  async #properties(event: string): Promise<Choice[]> {
    const name = ofOne(event)
    const { properties } = await this.#once(`properties of ${name}`, () => readProperties(name))
    return properties.map(({ property, share, types }) => ({
      value: fieldText(fieldIn('properties', property)),
      note: `${types[0]?.type ?? ''}, ${shareText(share)}`,
    }))
  }

  async #userProperties(): Promise<string[]> {
    const { users } = await this.#once('users', () => searchUsers({ search: '', page: 1, limit: PROFILES }))
    return [...new Set(users.flatMap(({ properties }) => Object.keys(properties)))].sort()
  }

  /** The values of a field as they are typed, the most frequent first. */
  async values(field: FieldName, event: string, text: string, signal: AbortSignal): Promise<Choice[]> {
    const wanted = { field: fieldText(field), event: ofOne(event), search: text, limit: MAX_CHOICES }
    const values = await readValues(wanted, signal)
    return values.flatMap(({ text, count }) => {
      const value: unknown = JSON.parse(text)
      const isPlain = value === null || typeof value !== 'object'
      return isPlain ? [{ value: valueText(value as Scalar), note: compactText(count) }] : []
    })
  }

  #once<T>(key: string, read: () => Promise<T>): Promise<T> {
    const kept = this.#kept.get(key)
    if (kept && Date.now() - kept.at < MAX_AGE_MS) return kept.answer as Promise<T>
    const answer = read()
    this.#kept.set(key, { at: Date.now(), answer })
    answer.catch(() => this.#kept.delete(key))
    return answer
  }
}

/** The event whose properties are meant; empty for those of all. */
function ofOne(event: string): string {
  return event === '*' ? '' : event
}

/** The names of the project whose question is being written. */
export const NamesContext = createContext<Names | null>(null)

export function useNames(): Names {
  const names = useContext(NamesContext)
  if (!names) throw new Error('there is no project')
  return names
}
