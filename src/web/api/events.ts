import type { StoredEvent } from '../../contract/responses.js'
import { elementTexts, memberTexts } from '../lib/exact.js'
import { send } from './call.js'

/** An event, and its properties as they were sent: parsed ones have other numbers. */
export interface ExactEvent extends StoredEvent {
  text: string
}

/** A part of a walk through events. */
export interface EventsRead {
  events: ExactEvent[]
  /** the cursor of the next part; null after the last one */
  next: string | null
  /** accepted events that are missing, as the store has not caught up with them */
  pending: number
}

/** @param text of an event as the service sends it */
export function exactEvent(text: string): ExactEvent {
  return { ...JSON.parse(text), text: memberTexts(text).get('properties') ?? '{}' }
}

/** Reads a page of `GET /public/events`. @throws CallError */
export async function readEvents(parameters: Record<string, string>, signal?: AbortSignal): Promise<EventsRead> {
  const response = await send('GET', `/public/events?${new URLSearchParams(parameters)}`, undefined, signal)
  const members = memberTexts(await response.text())
  return {
    events: elementTexts(members.get('events') ?? '[]').map(exactEvent),
    next: JSON.parse(members.get('next') ?? 'null'),
    pending: Number(members.get('pending') ?? 0),
  }
}
