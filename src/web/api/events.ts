import type { RowFormat } from '../../contract/formats.js'
import type { StoredEvent } from '../../contract/responses.js'
import { BASE_URL } from '../lib/base-url.js'
import { type Exact, parseAllExact, parseExact } from '../lib/json-text.js'
import { call, JsonText, readExact, toPath } from './call.js'

export type ExactEvent = Exact<StoredEvent>

/** A page of events. */
export interface EventsPage {
  events: ExactEvent[]
  /** cursor of the next page; null after the last one */
  next: string | null
  /** number of accepted events that are not stored yet */
  pending: number
}

/** Reads a page of `GET /public/events`. @throws CallError */
export async function listEvents(parameters: Record<string, string>, signal?: AbortSignal): Promise<EventsPage> {
  const members = await readExact(`/public/events?${new URLSearchParams(parameters)}`, signal)
  return {
    events: parseAllExact(members.get('events')),
    next: JSON.parse(members.get('next') ?? 'null'),
    pending: Number(members.get('pending') ?? 0),
  }
}

/** @throws CallError `not_found` */
export async function readEvent(eventId: string, signal: AbortSignal): Promise<ExactEvent> {
  return parseExact((await readExact(toPath('events', eventId), signal)).get('event'))
}

/** Replaces the properties of an event. @param text JSON, sent unchanged */
export async function replaceProperties(eventId: string, text: string): Promise<void> {
  await call('PUT', toPath('events', eventId), new JsonText(`{"properties":${text}}`))
}

export async function deleteEvent(eventId: string): Promise<void> {
  await call('DELETE', toPath('events', eventId))
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
