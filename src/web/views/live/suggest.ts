import { readEventNames, readProperties, readValues } from '../../api/schema.js'
import { type Choice, MAX_CHOICES, matching } from '../../lib/choices.js'
import { compactText, shareText } from '../../lib/format.js'

/** The names of events that hold a text. @throws CallError */
export async function suggestEvents(text: string, signal: AbortSignal): Promise<Choice[]> {
  const { events } = await readEventNames(signal)
  return matching(
    text,
    events.map(({ event, count }) => ({ value: event, note: compactText(count) })),
  )
}

/** The names of properties that hold a text. @param event only in events of this name; all if empty */
export async function suggestProperties(text: string, signal: AbortSignal, event: string): Promise<Choice[]> {
  const { properties } = await readProperties(event, signal)
  return matching(
    text,
    properties.map(({ property, share }) => ({ value: property, note: shareText(share) })),
  )
}

/** The values of a field that hold a text. @param field as a parameter, such as `properties.plan` */
export async function suggestValues(
  field: string,
  text: string,
  signal: AbortSignal,
  event: string,
): Promise<Choice[]> {
  const values = await readValues({ field, event, search: text, limit: MAX_CHOICES }, signal)
  return values
    .map(({ text, count }) => ({ value: JSON.parse(text), text, note: compactText(count) }))
    .filter(({ value }) => value !== null)
    .map(({ value, text, note }) => ({ value: typeof value === 'string' ? value : text, note }))
}
