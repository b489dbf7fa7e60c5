import type { EventNames, FieldValue, PropertyName } from '../../contract/responses.js'
import { readElements, readMembers } from '../lib/json-text.js'
import { call, readExact } from './call.js'

/** A property, with example values as JSON. */
export interface ExactProperty extends Omit<PropertyName, 'examples'> {
  examples: string[]
}

/** A value as JSON, and how often it occurs. */
export interface ExactValue extends Pick<FieldValue, 'count'> {
  text: string
}

/** The names of events, the most frequent first. @throws CallError */
export async function listEventNames(signal?: AbortSignal): Promise<EventNames> {
  return await call<EventNames>('GET', '/public/schema/events', undefined, signal)
}

/**
 * The properties of the newest events, the most frequent first, the number of events sampled, and the fields that
 * events have besides properties.
 * @param event only events of this name; all if empty
 * @throws CallError
 */
export async function listProperties(
  event: string,
  signal?: AbortSignal,
): Promise<{ properties: ExactProperty[]; fields: string[]; sampled: number }> {
  const path = `/public/schema/properties?${new URLSearchParams(event && { event })}`
  const members = await readExact(path, signal)
  const properties = readElements(members.get('properties') ?? '[]').map((text): ExactProperty => {
    return { ...JSON.parse(text), examples: readElements(readMembers(text).get('examples') ?? '[]') }
  })
  return { properties, fields: JSON.parse(members.get('fields') ?? '[]'), sampled: Number(members.get('sampled')) }
}

/** Which values to list. */
export interface ValuesQuery {
  /** as a query parameter, such as `properties.plan` */
  field: string
  /** only events of this name; all if empty */
  event: string
  /** only values that contain this text */
  search?: string
  limit: number
}

/** The values of a field in the newest events, the most frequent first. @throws CallError */
export async function listValues(
  { field, event, search = '', limit }: ValuesQuery,
  signal?: AbortSignal,
): Promise<ExactValue[]> {
  const query = new URLSearchParams({ field, ...(event && { event }), ...(search && { search }), limit: String(limit) })
  const found = await readExact(`/public/schema/values?${query}`, signal)
  return readElements(found.get('values') ?? '[]').map((text) => {
    const members = readMembers(text)
    return { text: members.get('value') ?? 'null', count: Number(members.get('count')) }
  })
}
