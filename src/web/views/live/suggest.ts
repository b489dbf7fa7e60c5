import type { EventName, EventNames, FieldValues, PropertyNames } from '../../contract/responses.js'
import { compactText, shareText } from '../lib/format.js'
import type { Choice } from '../ui/combobox.js'
import { call } from './call.js'

/** More than a list that people read has. */
const MAX_CHOICES = 50

/** The events that the project has, most first. @throws CallError */
export async function eventNames(signal: AbortSignal): Promise<EventName[]> {
  return (await call<EventNames>('GET', '/public/schema/events', undefined, signal)).events
}

/** The names of events that hold a text, for a combobox. @throws CallError */
export async function suggestEvents(text: string, signal: AbortSignal): Promise<Choice[]> {
  return (await eventNames(signal))
    .filter(({ event }) => holds(event, text))
    .slice(0, MAX_CHOICES)
    .map(({ event, count }) => ({ value: event, note: compactText(count) }))
}

/** The names of properties that hold a text. @param event only in events of this name; all if empty */
export async function suggestProperties(text: string, signal: AbortSignal, event = ''): Promise<Choice[]> {
  const query = new URLSearchParams(event && { event })
  const { properties } = await call<PropertyNames>('GET', `/public/schema/properties?${query}`, undefined, signal)
  return properties
    .filter(({ property }) => holds(property, text))
    .slice(0, MAX_CHOICES)
    .map(({ property, share }) => ({ value: property, note: shareText(share) }))
}

/** The values of a field that hold a text. @param field as a parameter, such as `properties.plan` */
export async function suggestValues(field: string, text: string, signal: AbortSignal, event = ''): Promise<Choice[]> {
  const query = new URLSearchParams({
    field,
    limit: String(MAX_CHOICES),
    ...(text && { search: text }),
    ...(event && { event }),
  })
  const { values } = await call<FieldValues>('GET', `/public/schema/values?${query}`, undefined, signal)
  return values
    .filter(({ value }) => value !== null)
    .map(({ value, count }) => ({
      value: typeof value === 'string' ? value : JSON.stringify(value),
      note: compactText(count),
    }))
}

function holds(name: string, text: string): boolean {
  return name.toLowerCase().includes(text.toLowerCase())
}
