/**
 * The shapes of responses. They are interfaces, not derived from the schemas, because the published
 * clients must not depend on TypeBox. `schemas.ts` has a schema for each, which the compiler
 * checks against it.
 */

import type { QuestionInput } from './questions.js'

/** Properties as they are read: any values that JSON has. */
export type Properties = Record<string, unknown>

export interface StoredEvent<P = Properties> {
  eventId: string
  event: string
  distinct_id: string
  properties: P
  /** epoch milliseconds */
  timestamp: number
  /** what the client called it; absent if it did not */
  insert_id?: string
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
  users: User[]
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

/** The data that was removed of one user. */
export interface ErasedUser {
  distinct_id: string
  /** whether there was one */
  profile: boolean
  events: number
  sessions: number
  dead_letters: number
}

export interface ErasedUsers {
  /** in the order of the request */
  erased: ErasedUser[]
  /** dead letters that name one of the users but cannot be read; they are left unchanged */
  unreadable_dead_letters: number
  /** when the data had left the disk, in epoch milliseconds; null if it is still there */
  gone_at: number | null
  /** why the purge fails for now; null if it does not */
  purge_error: string | null
}

/** What a call has removed of a project. */
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
  /** as of ErasedUsers; they may hold something of the project */
  unreadable_dead_letters: number
  gone_at: number | null
  purge_error: string | null
}

/** How many `insert_id`s of a project are remembered. */
export interface RememberedIds {
  /** of the keys that they came with; write and public keys are `page` */
  kind: 'page' | 'secret'
  lane: number
  ids: number
  /** epoch ms from which on all are known; null if those of seven days are */
  since: number | null
}

export interface ForgottenIds {
  forgotten: number
}

/** What the key of a request is. */
export interface DescribedKey {
  key: { kind: 'secret' | 'read'; project: string }
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
  /** most first */
  events: EventName[]
  /** accepted events that are not counted yet */
  pending: number
}

export const PROPERTY_TYPES = ['string', 'number', 'boolean', 'array', 'object'] as const
export type PropertyType = (typeof PROPERTY_TYPES)[number]

/** A property at the top level. */
export interface PropertyName {
  property: string
  /** of the events that were looked at, how many have it, 0 to 1 */
  share: number
  /** what it is in these, most first; the shares add up to 1 */
  types: { type: PropertyType; share: number }[]
  /** at most 5, the most frequent first */
  examples: unknown[]
}

export interface PropertyNames {
  /** most first */
  properties: PropertyName[]
  /** how many events were looked at, the newest ones */
  sampled: number
  pending: number
}

export interface FieldValue {
  value: unknown
  /** of the events that were looked at */
  count: number
}

export interface FieldValues {
  /** most first */
  values: FieldValue[]
  /** how many events were looked at, the newest ones */
  sampled: number
  pending: number
}

export interface SavedQuestion {
  id: string
  name: string
  /** as it was sent */
  question: QuestionInput
  /** how it is drawn, exactly as sent; null if not given */
  display: Properties | null
  /** higher with each change */
  revision: number
  /** epoch milliseconds */
  updated_at: number
}

export interface BoardCard {
  id: string
  name: string
  question: QuestionInput | { saved: string }
  display: Properties | null
  /** columns, 1 to 4 */
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
  /** why; may quote the entry */
  reason: string
  /** epoch milliseconds */
  received_at: number
  /** epoch milliseconds; null while it waits */
  replayed_at: number | null
  /** the beginning of its text: at most 10 000 characters */
  entry: string
}

export interface DeadLetterPage extends NumberedPage {
  /** the newest first */
  dead_letters: DeadLetter[]
}

export interface ReplayedLetters {
  /** how many are stored now */
  replayed: number
  /** those that are not, and why */
  refused: { id: string; reason: string }[]
}
