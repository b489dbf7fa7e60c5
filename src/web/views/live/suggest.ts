import { listEventNames, listProperties, listValues } from '../../api/schema.js'
import { type Choice, filterChoices, MAX_CHOICES } from '../../lib/choices.js'
import { formatCompact, formatShare } from '../../lib/format.js'
import { flattenProperties } from '../../lib/listed-properties.js'

/** Event names that match a text. @throws CallError */
export async function suggestEvents(text: string, signal: AbortSignal): Promise<Choice[]> {
  const { events } = await listEventNames(signal)
  return filterChoices(
    text,
    events.map(({ event, count }) => ({ value: event, note: formatCompact(count) })),
  )
}

/** Property names that match a text, and those within objects, joined by dots. @param event only events of this name; all if empty */
export async function suggestProperties(text: string, signal: AbortSignal, event: string): Promise<Choice[]> {
  const { properties } = await listProperties(event, signal)
  return filterChoices(
    text,
    flattenProperties(properties).map(({ names, share }) => ({ value: names.join('.'), note: formatShare(share) })),
  )
}

/** Values of a property that match a text. @param property a name, or names within objects joined by dots */
export async function suggestPropertyValues(
  property: string,
  text: string,
  signal: AbortSignal,
  event: string,
): Promise<Choice[]> {
  const fields = [['properties', property], ...(property.includes('.') ? [['properties', ...property.split('.')]] : [])]
  const all = await Promise.all(fields.map((field) => suggestValues(JSON.stringify(field), text, signal, event)))
  return all.flat()
}

/** Values of a field that match a text. @param field as a query parameter, such as `properties.plan` */
export async function suggestValues(
  field: string,
  text: string,
  signal: AbortSignal,
  event: string,
): Promise<Choice[]> {
  const values = await listValues({ field, event, search: text, limit: MAX_CHOICES }, signal)
  const choices = values
    .map(({ text, count }) => ({ value: JSON.parse(text), text, note: formatCompact(count) }))
    .filter(({ value }) => value !== null)
    .map(({ value, text, note }) => ({ value: typeof value === 'string' ? value : text, note }))
  return filterChoices(text, choices)
}
