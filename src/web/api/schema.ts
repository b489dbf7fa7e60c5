import type { EventNames, FieldValue, PropertyName } from '../../contract/responses.js'
import { elementTexts, memberTexts } from '../lib/exact.js'
import { call, send } from './call.js'

/** A property, and examples of its values as JSON. */
export interface ExactProperty extends Omit<PropertyName, 'examples'> {
  examples: string[]
}

/** A value as JSON, and how often it was there. */
export interface ExactValue extends Pick<FieldValue, 'count'> {
  text: string
}

/** The names of events, most first. @throws CallError */
export async function readEventNames(signal: AbortSignal): Promise<EventNames> {
  return await call<EventNames>('GET', '/public/schema/events', undefined, signal)
}

/** The properties of the newest events of a name, most first, and how many were looked at. @throws CallError */
export async function readProperties(
  event: string,
  signal: AbortSignal,
): Promise<{ properties: ExactProperty[]; sampled: number }> {
  const path = `/public/schema/properties?${new URLSearchParams({ event })}`
  const members = memberTexts(await (await send('GET', path, undefined, signal)).text())
  const properties = elementTexts(members.get('properties') ?? '[]').map((text): ExactProperty => {
    return { ...JSON.parse(text), examples: elementTexts(memberTexts(text).get('examples') ?? '[]') }
  })
  return { properties, sampled: Number(members.get('sampled')) }
}

/** The values of a property in the newest events of a name, most first. @throws CallError */
export async function readValues(
  { event, property, limit }: { event: string; property: string; limit: number },
  signal: AbortSignal,
): Promise<ExactValue[]> {
  const field = JSON.stringify(['properties', property])
  const query = new URLSearchParams({ event, field, limit: String(limit) })
  const response = await send('GET', `/public/schema/values?${query}`, undefined, signal)
  return elementTexts(memberTexts(await response.text()).get('values') ?? '[]').map((text) => {
    const members = memberTexts(text)
    return { text: members.get('value') ?? 'null', count: Number(members.get('count')) }
  })
}
