import { listEventNames, listProperties, listValues } from '../../api/schema.js'
import { type Choice, filterChoices, MAX_CHOICES } from '../../lib/choices.js'
import { formatCompact, formatShare } from '../../lib/format.js'

/** The names of events that hold a text. @throws CallError */
export async function suggestEvents(text: string, signal: AbortSignal): Promise<Choice[]> {
  const { events } = await listEventNames(signal)
  return filterChoices(
    text,
    events.map(({ event, count }) => ({ value: event, note: formatCompact(count) })),
  )
}

/** The names of properties that hold a text. @param event only in events of this name; all if empty */
export async function suggestProperties(text: string, signal: AbortSignal, event: string): Promise<Choice[]> {
  const { properties } = await listProperties(event, signal)
  return filterChoices(
    text,
    properties.map(({ property, share }) => ({ value: property, note: formatShare(share) })),
  )
}

/** The values of a field that hold a text. @param field as a parameter, such as `properties.plan` */
export async function suggestValues(
  field: string,
  text: string,
  signal: AbortSignal,
  event: string,
): Promise<Choice[]> {
  const values = await listValues({ field, event, search: text, limit: MAX_CHOICES }, signal)
  return values
    .map(({ text, count }) => ({ value: JSON.parse(text), text, note: formatCompact(count) }))
    .filter(({ value }) => value !== null)
    .map(({ value, text, note }) => ({ value: typeof value === 'string' ? value : text, note }))
}
