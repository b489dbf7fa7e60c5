/**
 * The shapes of responses. They are interfaces, not derived from the schemas, because the published
 * clients must not depend on TypeBox. `schemas.ts` has a schema for each, which the compiler
 * checks against it.
 */

import type { Context } from './context.js'
import type { ProjectSettings } from './project-settings.js'
import type { QuestionInput } from './questions.js'
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

/** A user with events or a profile. */
export interface ListedUser<P = Properties> {
  distinct_id: string
  /** of the profile; none without one */
  properties: P
  /** epoch milliseconds; null without a profile */
  created_at: number | null
  updated_at: number | null
  /** epoch milliseconds of the latest event; null without events. Absent in a list of profiles */
  last_seen?: number | null
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

export interface UserPage extends NumberedPage {
  users: ListedUser[]
}

export interface UserAliases {
  /** the user's canonical id, even if the request used another of its names */
  distinct_id: string
  /** at most 1000 */
  aliases: string[]
  /** whether there are more */
  hasMore: boolean
}

export interface SessionPage extends NumberedPage {
  /** the latest start first */
  sessions: Session[]
}

/** How much data of one user was removed. */
export interface ErasedUser {
  distinct_id: string
  /** whether there was a profile */
  profile: boolean
  events: number
  sessions: number
  dead_letters: number
}

export interface ErasedUsers {
  /** users in the order of the request */
  erased: ErasedUser[]
  /** dead letters that name one of the users but cannot be read; they are left unchanged */
  unreadable_dead_letters: number
  /** when the data had left the disk, in epoch milliseconds; null if it is still there */
  gone_at: number | null
  /** why the purge currently fails; null if it does not */
  purge_error: string | null
}

/** How much data of a project a call has removed. */
export interface ErasedProject {
  events: number
  sessions: number
  profiles: number
  aliases: number
  dead_letters: number
}

export interface ProjectErased {
  erased: ErasedProject
  /** whether everything is removed; if not, repeat the call to remove the rest */
  complete: boolean
  /** dead letters that cannot be read and may hold data of the project */
  unreadable_dead_letters: number
  gone_at: number | null
  purge_error: string | null
}

/** How many `insert_id`s of a project are remembered. */
export interface RememberedIds {
  /** kind of the keys that sent them; `page` for write and public keys */
  kind: 'page' | 'secret'
  lane: number
  ids: number
  /** all ids sent since this time, epoch ms, are remembered; null for the full seven days */
  since: number | null
}

export interface ForgottenIds {
  forgotten: number
}

/** A description of the key that a request was made with. */
export interface DescribedKey {
  key: { kind: 'secret' | 'read'; project: string }
}

/** A key of a project, without its text. */
export interface ListedKey {
  /** its first characters, or the name of the setting that has it */
  id: string
  kind: 'secret' | 'public' | 'write' | 'read'
  /** what people call it; empty if it has no label */
  label: string
  /** of the pages that may use it; empty for any */
  origins: string[]
  /** whether a write key may only send events and make session calls */
  events_only: boolean
  /** keys of the environment are changed in the settings of the service */
  source: 'store' | 'environment'
  /** `ending` while a key that was replaced still works */
  state: 'valid' | 'ending' | 'revoked'
  /** epoch milliseconds; null for a key of the environment */
  created_at: number | null
  /** when it stops or stopped working, epoch milliseconds; null if it was neither revoked nor replaced */
  revoked_at: number | null
  /** a day in UTC, such as 2026-11-26; null for never */
  last_used: string | null
  /** how many of its requests were refused because the key may not make them */
  refused: number
  /** the day of the last of them */
  last_refused: string | null
  /** whether the call was made with this key */
  current: boolean
}

/** A new key with its text, which no other call returns. */
export interface CreatedKey {
  apiKey: string
  key: ListedKey
}

export interface RotatedKey extends CreatedKey {
  /** the key that was replaced */
  replaced: ListedKey
}

/** An entry of the audit log. */
export interface AuditLogEntry {
  /** epoch milliseconds */
  at: number
  /** the key that made the change, with the label that it had then; null for the command line and the service itself */
  actor: { type: 'key' | 'command_line' | 'service'; id: string | null; label: string | null }
  action: string
  /** what was changed, with the label that it had before; null if there is only one */
  target: { id: string; label: string } | null
  /** the old and the new value of each field */
  changes: Record<string, { from: unknown; to: unknown }>
}

export interface AuditLogPage extends NumberedPage {
  /** the newest first */
  entries: AuditLogEntry[]
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

export interface SavedQuestion {
  id: string
  name: string
  /** as it was sent */
  question: QuestionInput
  /** how the page draws it, exactly as sent; null if not given */
  display: Properties | null
  /** increases with each change */
  revision: number
  /** epoch milliseconds */
  updated_at: number
}

export interface BoardCard {
  id: string
  name: string
  question: QuestionInput | { saved: string }
  display: Properties | null
  /** in columns, 1 to 4 */
  width: number
  height: number | null
}

/** A board in a list. */
export interface BoardSummary {
  id: string
  name: string
  /** how many cards it has */
  count: number
  revision: number
  /** epoch milliseconds */
  updated_at: number
}

export interface Board extends Omit<BoardSummary, 'count'> {
  cards: BoardCard[]
  /** how it is shown, exactly as sent; null if not given */
  display: Properties | null
}

/** A request, or several that were accepted together, that could not be stored. */
export interface DeadLetter {
  id: string
  kind: 'events' | 'rejected'
  /** why it could not be stored; may quote the entry */
  reason: string
  /** epoch milliseconds */
  received_at: number
  /** epoch milliseconds; null if it was not replayed yet */
  replayed_at: number | null
  /** the beginning of its text: at most 10 000 characters */
  entry: string
}

export interface DeadLetterPage extends NumberedPage {
  /** the newest first */
  dead_letters: DeadLetter[]
}

export interface ReplayedDeadLetters {
  /** how many were stored */
  replayed: number
  /** dead letters that were not stored, and why */
  refused: { id: string; reason: string }[]
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

/** What a project used on a day (UTC). */
export interface UsedOnDay {
  day: string
  /** accepted events */
  events: number
  /** their size in bytes, as received */
  bytes: number
  /** how long the store worked on reads, seconds */
  read_seconds: number
}

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
