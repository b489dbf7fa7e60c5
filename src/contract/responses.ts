/**
 * The shapes of the responses that the published clients read. They are interfaces, because these clients must not
 * depend on TypeBox. Each has a schema, which the compiler checks against it. The shapes of all other responses are
 * derived from their schemas.
 */

import type { Context } from './context.js'
import type { ProjectSettings } from './project-settings.js'
import type { Warning } from './warning.js'

/** Properties in a response: any JSON values. */
export type Properties = Record<string, unknown>

export interface StoredEvent<P = Properties> {
  eventId: string
  event: string
  distinct_id: string
  properties: P
  /** epoch milliseconds */
  timestamp: number
  /** the id that the client gave it; absent if it gave none */
  insert_id?: string
  /** the session that the client named; absent if it named none */
  session_id?: string
  /** what the request said about its sender; absent if it said nothing */
  context?: Context
}

export interface User<P = Properties> {
  distinct_id: string
  properties: P
  /** epoch milliseconds */
  created_at: number
  updated_at: number
}

export interface Session<P = Properties> {
  session_id: string
  distinct_id: string
  state: 'active' | 'completed'
  properties: P
  /** in the unit of the client that sent it; in seconds if none did */
  duration: number
  /** epoch milliseconds */
  started_at: number
  updated_at: number
  ended_at: number | null
  /** what the calls said about their sender; absent if they said nothing */
  context?: Context
}

/** A page selected by number. */
interface NumberedPage {
  page: number
  limit: number
  /** whether there is a next page */
  hasMore: boolean
}

export interface EventPage extends NumberedPage {
  events: StoredEvent[]
  /** the cursor of the next page; null after the last one */
  next: string | null
  /** accepted events that are missing because the store has not caught up with them */
  pending: number
}

export interface SessionPage extends NumberedPage {
  /** the latest start first */
  sessions: Session[]
}

/** An event name of a project. */
export interface EventName {
  event: string
  count: number
  /** the earliest and the latest `timestamp`, epoch milliseconds */
  first_seen: number
  last_seen: number
}

export interface EventNames {
  /** most frequent first */
  events: EventName[]
  /** accepted events that are not counted yet */
  pending: number
}

export const PROPERTY_TYPES = ['string', 'number', 'boolean', 'array', 'object'] as const
export type PropertyType = (typeof PROPERTY_TYPES)[number]

/** A property, at the top level or within an object. */
export interface PropertyName {
  property: string
  /** share of the sampled events that have it, 0 to 1 */
  share: number
  /** types of its values in these events, most frequent first; the shares add up to 1 */
  types: { type: PropertyType; share: number }[]
  /** at most 5, the most frequent first */
  examples: unknown[]
  /** the properties within it if it is an object, most frequent first; absent if there are none */
  properties?: PropertyName[]
}

export interface PropertyNames {
  /** most frequent first */
  properties: PropertyName[]
  /** the other fields of events: of their page, context and session */
  fields: string[]
  /** how many events were looked at, the newest ones */
  sampled: number
  pending: number
  /** if the list is empty: names that nothing has */
  warnings?: Warning[]
}

export interface FieldValue {
  value: unknown
  /** number of sampled events with this value */
  count: number
}

export interface FieldValues {
  /** most frequent first */
  values: FieldValue[]
  /** how many events were looked at, the newest ones */
  sampled: number
  pending: number
  /** if the list is empty: names that nothing has */
  warnings?: Warning[]
}

/** Data that is past its project's retention. */
export interface Expired {
  count: number
  /** its earliest and latest time, epoch milliseconds; null if there is none */
  from: number | null
  to: number | null
  /** bytes on the disk, estimated */
  bytes: number
}

/** The usage of a project on a day (UTC). */
export interface UsedOnDay {
  day: string
  /** accepted events */
  events: number
  /** their size in bytes, as received */
  bytes: number
  /** bytes on the disks of ClickHouse, as last measured on that day; 0 if they were not */
  stored_bytes: number
  /** CPU time of ClickHouse for reads, seconds; null if ClickHouse does not tell */
  read_cpu_seconds: number | null
}

/** The columns of a table of usage by day. */
export const USAGE_COLUMNS = [
  'day',
  'events',
  'bytes',
  'stored_bytes',
  'read_cpu_seconds',
] as const satisfies (keyof UsedOnDay)[]

export interface ProjectUsage {
  /** earliest first, without days on which nothing was used */
  days: UsedOnDay[]
  /** on the disk, estimated */
  stored_bytes: number
  quotas: { name: string; limit: number; mode: 'soft' | 'hard'; used: number }[]
}

/** A project and its settings, defaults included. */
export interface ProjectAnswer {
  project: ProjectSettings & {
    id: string
    /** counts the changes; 0 before the first */
    revision: number
    /** epoch milliseconds; 0 before the first change */
    updated_at: number
  }
  /** only in a dry run */
  expired?: { events: Expired; sessions: Expired; profiles: Expired }
}
