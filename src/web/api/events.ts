import type { RowFormat } from '../../contract/formats.js'
import type { StoredEvent } from '../../contract/responses.js'
import { BASE_URL } from '../lib/base-url.js'
import { readElements, readMembers } from '../lib/json-text.js'
import { call, JsonText, send } from './call.js'

/** An event and the source text of its properties, because parsing changes numbers. */
export interface ExactEvent extends StoredEvent {
  text: string
}

/** A page of events. */
export interface EventsPage {
  events: ExactEvent[]
  /** cursor of the next page; null after the last one */
  next: string | null
  /** number of accepted events that are not stored yet */
  pending: number
}

/** @param text the JSON of an event as the service sends it */
export function parseEvent(text: string): ExactEvent {
  return { ...JSON.parse(text), text: readMembers(text).get('properties') ?? '{}' }
}

/** Reads a page of `GET /public/events`. @throws CallError */
export async function listEvents(parameters: Record<string, string>, signal?: AbortSignal): Promise<EventsPage> {
  const response = await send('GET', `/public/events?${new URLSearchParams(parameters)}`, undefined, signal)
  const members = readMembers(await response.text())
  return {
    events: readElements(members.get('events') ?? '[]').map(parseEvent),
    next: JSON.parse(members.get('next') ?? 'null'),
    pending: Number(members.get('pending') ?? 0),
  }
}

/** @throws CallError `not_found` */
export async function readEvent(eventId: string, signal: AbortSignal): Promise<ExactEvent> {
  const response = await send('GET', toPath(eventId), undefined, signal)
  return parseEvent(readMembers(await response.text()).get('event') ?? '{}')
}

/** Replaces the properties of an event. @param text JSON, sent unchanged */
export async function replaceProperties(eventId: string, text: string): Promise<void> {
  await call('PUT', toPath(eventId), new JsonText(`{"properties":${text}}`))
}

export async function deleteEvent(eventId: string): Promise<void> {
  await call('DELETE', toPath(eventId))
}

/** Which events to download, and how. */
interface EventsFile {
  event: string
  format: RowFormat
  /** epoch ms; null for no bound */
  from: number | null
  to: number | null
}

/** The URL from which the events of a name can be downloaded. */
export function toExportUrl({ event, format, from, to }: EventsFile): string {
  const query = new URLSearchParams({ event, format })
  if (from !== null) query.set('from', String(from))
  if (to !== null) query.set('to', String(to))
  return `${BASE_URL}/public/export?${query}`
}

function toPath(eventId: string): string {
  return `/public/events/${encodeURIComponent(eventId)}`
}
