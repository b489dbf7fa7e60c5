import { listEventNames, listProperties, listValues } from '../../api/schema.js'
import { type Choice, filterChoices, MAX_CHOICES } from '../../lib/choices.js'
import { formatCompact, formatShare } from '../../lib/format.js'

/** Event names that contain a text. @throws CallError */
export async function suggestEvents(text: string, signal: AbortSignal): Promise<Choice[]> {
  const { events } = await listEventNames(signal)
  return filterChoices(
    text,
    events.map(({ event, count }) => ({ value: event, note: formatCompact(count) })),
  )
}

/** Property names that contain a text. @param event only events of this name; all if empty */
export async function suggestProperties(text: string, signal: AbortSignal, event: string): Promise<Choice[]> {
  const { properties } = await listProperties(event, signal)
  return filterChoices(
    text,
    properties.map(({ property, share }) => ({ value: property, note: formatShare(share) })),
  )
}

/** Values of a field that contain a text. @param field as a query parameter, such as `properties.plan` */
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
