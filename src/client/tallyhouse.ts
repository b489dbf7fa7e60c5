import { formatExactJson } from '../contract/exact-json.js'
import type { SettingsChange } from '../contract/project-settings.js'
import type { AnswerTo, FieldName, QuestionInput } from '../contract/questions.js'
import type {
  EventNames,
  FieldValues,
  ProjectAnswer,
  ProjectUsage,
  Properties,
  PropertyNames,
  Session,
  SessionPage,
  StoredEvent,
  User,
} from '../contract/responses.js'
import { memberText } from '../json/texts.js'
import { type CallOptions, Connection, type ConnectionOptions, idempotentPost } from './connection.js'
import { TallyhouseError } from './errors.js'
import { checkName, formatEvent, formatObject, type GivenProperties, type JsonText, type TrackEvent } from './event.js'
import { EventQueue, type EventQueueOptions } from './event-queue.js'
import { type ExportOptions, exportEvents, rawProperties, toSearchParams } from './export.js'
import { type LiveOptions, liveEvents } from './live.js'

export interface TallyhouseOptions extends ConnectionOptions, EventQueueOptions {}

/** Changes of a profile. They apply in this order, all or none of them. */
export interface ProfileOperations {
  /** sets each property */
  $set?: GivenProperties
  /** adds to each number; a missing one counts as 0 */
  $add?: Record<string, number>
  /** appends the value to each array; a missing one counts as empty */
  $append?: GivenProperties
  /** sets each property that is missing */
  $set_once?: GivenProperties
  /** removes each property */
  $unset?: string[]
  /** prepends the value to each array; a missing one counts as empty */
  $prepend?: GivenProperties
  /** appends to each array the values that it does not contain */
  $union?: Record<string, unknown[]>
  /** removes the value from each array */
  $remove?: GivenProperties
}

/** One part of a user's data. */
export type UserRecord<P = Properties> =
  | ({ type: 'profile' } & User<P>)
  | { type: 'alias'; distinct_id: string; alias: string }
  | ({ type: 'session' } & Session<P>)
  | ({ type: 'event' } & StoredEvent<P>)

export interface SessionFilter {
  distinct_id?: string
  state?: Session['state']
  /** the earliest start: epoch milliseconds or a Date */
  from?: number | Date
  /** only sessions that started before this time */
  to?: number | Date
}

export interface SessionListOptions extends SessionFilter, CallOptions {
  /** sessions per page: 1 to 10 000; default 50 */
  limit?: number
  /** starts at 1, the default */
  page?: number
}

/** A project and its settings, defaults included. */
export type Project = ProjectAnswer['project']

export interface UsageOptions extends CallOptions {
  /** the first day (UTC), such as `2026-11-26`; default: 30 days before the last one */
  from?: string
  /** the last day (UTC); default: today */
  to?: string
}

export interface PropertyNamesOptions extends CallOptions {
  /** only in events of this name */
  event?: string
}

export interface FieldValuesOptions extends PropertyNamesOptions {
  /** only values that contain this text, case-insensitive */
  search?: string
  /** 1 to 1000; default 50 */
  limit?: number
}

const CLOSE_TIMEOUT_MS = 10_000
/** Waiting for the store and for a slot, plus the service's QUERY_TIMEOUT. */
export const QUESTION_TIMEOUT_MS = 120_000

/**
 * A project of a Tallyhouse service, for programs on servers: it needs the secret key, which must never reach a
 * browser.
 *
 * `track` puts events into a queue in memory, which is sent in batches. A crash loses the events that are still in
 * it, so await `flush()` or the promise of `track` for events that must not be lost. Every other call is made
 * immediately. All calls are retried after transient failures, and no retry counts twice. They throw a
 * `TallyhouseError`.
 */
export class Tallyhouse {
  readonly #connection: Connection
  readonly #queue: EventQueue

  /** @throws TypeError if the URL or the key cannot be used */
  constructor(options: TallyhouseOptions) {
    this.#connection = new Connection(options)
    this.#queue = new EventQueue(this.#connection, options)
  }

  /**
   * Puts an event into the queue.
   * @returns once the service has acknowledged it; rejects if it is dropped: `queue_full`, `closed`,
   * `invalid_request`, or the error with which the service refused it. The promise may be ignored, because `onDrop`
   * and `dropped` report drops, too. To wait for many events, await `flush()` once
   */
  track(event: TrackEvent): Promise<void> {
    return this.#queue.add(event)
  }

  /**
   * Sends one event immediately, bypassing the queue, if you need its id.
   * @returns the event's id
   */
  async trackNow(event: TrackEvent, options?: CallOptions): Promise<string> {
    const body = formatEvent(event, Date.now())
    const { headers } = await this.#connection.call(idempotentPost('/public/track', body), options)
    return headers.get('x-event-id') ?? ''
  }

  /**
   * Creates the user's profile, or replaces all its properties. To set some of them and leave the others alone, use
   * `updateProfile` with `$set`.
   * @param properties if missing, a profile that exists is not changed
   */
  async identify(
    distinctId: string,
    properties?: GivenProperties | JsonText | null,
    options?: CallOptions,
  ): Promise<void> {
    const body = bodyFor(distinctId, 'properties', properties == null ? 'null' : formatObject('properties', properties))
    await this.#connection.call({ method: 'POST', path: '/public/users/identify', body }, options)
  }

  /** Changes some properties of the user's profile, or creates it: `{ $set: { plan: 'pro' }, $add: { visits: 1 } }`. */
  async updateProfile(distinctId: string, operations: ProfileOperations, options?: CallOptions): Promise<void> {
    const body = bodyFor(distinctId, 'operations', formatObject('operations', operations))
    await this.#connection.call(idempotentPost('/public/users/profile', body), options)
  }

  /**
   * Makes `alias` another name of the user, for future and past events. Repeating the call has no effect.
   * @throws TallyhouseError `alias_conflict` if it names another user
   */
  async alias(distinctId: string, alias: string, options?: CallOptions): Promise<void> {
    checkName('alias', alias)
    const body = bodyFor(distinctId, 'alias', JSON.stringify(alias))
    await this.#connection.call({ method: 'POST', path: '/public/users/alias', body }, options)
  }

  /**
   * Removes an alias of the user and restores everything as it was before, including the profile of that name.
   * @throws TallyhouseError `not_found` if it is not an alias of this user
   */
  async removeAlias(distinctId: string, alias: string, options?: CallOptions): Promise<void> {
    await this.#connection.delete(pathToAlias(distinctId, alias), options)
  }

  /** @throws TallyhouseError `not_found` */
  async getUser(distinctId: string, options?: CallOptions): Promise<User> {
    const { value } = await this.#connection.call({ method: 'GET', path: pathTo('users', distinctId) }, options)
    return value.user as User
  }

  /**
   * Deletes the user's profile permanently; with the service's `DELETE_USER_EVENTS`, its events
   * and sessions, too.
   * @throws TallyhouseError `not_found`
   */
  async deleteUser(distinctId: string, options?: CallOptions): Promise<void> {
    await this.#connection.delete(pathTo('users', distinctId), options)
  }

  /**
   * Replaces the event's properties.
   * @throws TallyhouseError `not_found`
   */
  async editEvent(eventId: string, properties: GivenProperties | JsonText, options?: CallOptions): Promise<void> {
    const body = `{"properties":${formatObject('properties', properties)}}`
    await this.#connection.call({ method: 'PUT', path: pathTo('events', eventId), body }, options)
  }

  /** @throws TallyhouseError `not_found` */
  async deleteEvent(eventId: string, options?: CallOptions): Promise<void> {
    await this.#connection.delete(pathTo('events', eventId), options)
  }

  /** Returns the project of the key and its settings; a read key is enough. */
  async project(options?: CallOptions): Promise<Project> {
    const { value } = await this.#connection.call({ method: 'GET', path: '/public/project' }, options)
    return value.project as Project
  }

  /**
   * Changes settings of the project: absent fields stay as they are, and null restores the default. A shorter `keep`
   * permanently removes older data.
   * @throws TallyhouseError `revision_conflict` if the change names a `revision` that is not the current one
   */
  async changeProject(change: SettingsChange & { revision?: number }, options?: CallOptions): Promise<Project> {
    const body = JSON.stringify(change)
    const { value } = await this.#connection.call({ method: 'PATCH', path: '/public/project', body }, options)
    return value.project as Project
  }

  /** Returns the project's usage by day, its stored bytes and its quotas; a read key is enough. */
  async usage({ signal, ...query }: UsageOptions = {}): Promise<ProjectUsage> {
    const { value } = await this.#connection.call(
      { method: 'GET', path: `/public/usage?${toSearchParams(query)}` },
      { signal },
    )
    const { days, stored_bytes, quotas } = value as unknown as ProjectUsage
    return { days, stored_bytes, quotas }
  }

  /** @throws TallyhouseError `not_found` */
  async getSession(sessionId: string, options?: CallOptions): Promise<Session> {
    const { value } = await this.#connection.call({ method: 'GET', path: pathTo('sessions', sessionId) }, options)
    return value.session as Session
  }

  /**
   * Lists sessions, latest start first. A session that starts while you page shifts the pages; use `to` to exclude
   * it.
   */
  async listSessions({ signal, ...query }: SessionListOptions = {}): Promise<SessionPage> {
    const path = `/public/sessions?${toSearchParams(query)}`
    const { value } = await this.#connection.call({ method: 'GET', path }, { signal })
    const { sessions, page, limit, hasMore } = value as unknown as SessionPage
    return { sessions, page, limit, hasMore }
  }

  /**
   * Returns one event. With `raw`, its `properties` are the exact text that was sent.
   * @throws TallyhouseError `not_found`
   */
  getEvent(eventId: string, options: CallOptions & { raw: true }): Promise<StoredEvent<JsonText>>
  getEvent(eventId: string, options?: CallOptions & { raw?: false }): Promise<StoredEvent>
  async getEvent(
    eventId: string,
    { raw = false, ...options }: CallOptions & { raw?: boolean } = {},
  ): Promise<StoredEvent<Properties | JsonText>> {
    const { value, text } = await this.#connection.call({ method: 'GET', path: pathTo('events', eventId) }, options)
    const event = value.event as StoredEvent
    return raw ? { ...event, properties: rawProperties(memberText(text, 'event') ?? '{}') } : event
  }

  /**
   * Yields all data of a user, for an access request: the profile, aliases, sessions and events, in this order. With
   * `raw`, `properties` are the text that was sent, except for line breaks between its tokens.
   * @throws TallyhouseError `not_found` if there is no data; `network` or `timeout` if the export breaks off and is
   * incomplete
   */
  exportUser(distinctId: string, options: CallOptions & { raw: true }): AsyncGenerator<UserRecord<JsonText>, void>
  exportUser(distinctId: string, options?: CallOptions & { raw?: false }): AsyncGenerator<UserRecord, void>
  async *exportUser(
    distinctId: string,
    { raw = false, ...options }: CallOptions & { raw?: boolean } = {},
  ): AsyncGenerator<UserRecord<Properties | JsonText>, void> {
    const path = `${pathTo('users', distinctId)}/export`
    for await (const line of this.#connection.lines({ method: 'GET', path }, options)) {
      const record = JSON.parse(line) as UserRecord
      yield raw && record.type !== 'alias' ? { ...record, properties: rawProperties(line) } : record
    }
  }

  /**
   * Yields all events of the project, or those that match a filter, in the order in which the service accepted them,
   * or newest first with `order: 'desc'`. Pages are requested as the events are consumed. Every event acknowledged
   * before is included, but none that is still in the queue.
   * @throws TallyhouseError `incomplete` after the last available event, if the store does not catch up with the
   * accepted events
   */
  exportEvents(options: ExportOptions & { raw: true }): AsyncGenerator<StoredEvent<JsonText>, void, undefined>
  exportEvents(options?: ExportOptions & { raw?: false }): AsyncGenerator<StoredEvent, void, undefined>
  exportEvents(options: ExportOptions = {}): AsyncGenerator<StoredEvent<Properties | JsonText>, void, undefined> {
    return exportEvents(this.#connection, options)
  }

  /**
   * Yields events when the store has them, usually half a second after they were accepted: those accepted from now
   * on, or after `lastEventId`. Each comes once and in order; a stream that breaks off is reopened where it ended. It
   * continues until the signal aborts it, or you leave the loop.
   * @throws TallyhouseError if it is permanent, such as `unauthorized`
   */
  live(options: LiveOptions & { raw: true }): AsyncGenerator<StoredEvent<JsonText>, void, undefined>
  live(options?: LiveOptions & { raw?: false }): AsyncGenerator<StoredEvent, void, undefined>
  live(options: LiveOptions = {}): AsyncGenerator<StoredEvent<Properties | JsonText>, void, undefined> {
    return liveEvents(this.#connection, options)
  }

  /**
   * Answers a question about events, including everything acknowledged before. The type of the answer depends on the
   * question's `kind`. Its `warnings`, if any, name likely mistakes, such as a name that no event has. An abort also
   * stops the question in the service.
   * @throws TallyhouseError `invalid_request` with the fields at fault in `details`; `query_too_large`
   */
  async query<Q extends QuestionInput>(question: Q, options?: CallOptions): Promise<AnswerTo<Q['kind']>> {
    const call = { method: 'POST', path: '/public/query', body: formatExactJson(question) } as const
    const { value } = await this.#connection.call({ ...call, timeoutMs: QUESTION_TIMEOUT_MS }, options)
    const { status: _, error: __, ...answer } = value
    return answer as unknown as AnswerTo<Q['kind']>
  }

  /**
   * Returns the names of events, with their counts and the times of the first and last.
   * @throws like `query`
   */
  async eventNames(options?: CallOptions): Promise<EventNames> {
    const { events, pending } = await this.#names<EventNames>('events', {}, options)
    return { events, pending }
  }

  /**
   * Returns the properties of the newest events, with their types and some examples.
   * @throws like `query`
   */
  async propertyNames({ signal, ...query }: PropertyNamesOptions = {}): Promise<PropertyNames> {
    const { properties, fields, sampled, pending } = await this.#names<PropertyNames>('properties', query, { signal })
    return { properties, fields, sampled, pending }
  }

  /**
   * Returns the values of a field in the newest events.
   * @throws like `query`
   */
  async fieldValues(field: FieldName, { signal, ...query }: FieldValuesOptions = {}): Promise<FieldValues> {
    const text = typeof field === 'string' ? field : JSON.stringify(field)
    const { values, sampled, pending } = await this.#names<FieldValues>('values', { field: text, ...query }, { signal })
    return { values, sampled, pending }
  }

  async #names<Names>(of: 'events' | 'properties' | 'values', query: object, options?: CallOptions): Promise<Names> {
    const call = {
      method: 'GET',
      path: `/public/schema/${of}?${toSearchParams(query)}`,
      timeoutMs: QUESTION_TIMEOUT_MS,
    } as const
    const { value } = await this.#connection.call(call, options)
    return value as unknown as Names
  }

  /** number of events that are queued or in flight */
  get queued(): number {
    return this.#queue.size
  }

  /** number of events dropped so far, for any reason */
  get dropped(): number {
    return this.#queue.dropped
  }

  /**
   * Sends the queued events immediately.
   * @returns once all of them are settled; rejects if one of them was dropped
   */
  async flush(): Promise<void> {
    await this.#queue.flush()
  }

  /**
   * Flushes and accepts no more events. A process with nothing else to do waits for its events anyway; this limits
   * the wait.
   * @param timeoutMs events that are not delivered by then are dropped as `closed`
   * @returns like `flush`
   */
  async close(timeoutMs: number = CLOSE_TIMEOUT_MS): Promise<void> {
    await this.#queue.close(timeoutMs)
  }
}

function bodyFor(distinctId: string, field: string, text: JsonText): JsonText {
  checkName('distinct_id', distinctId)
  return `{"distinct_id":${JSON.stringify(distinctId)},"${field}":${text}}`
}

/** @throws TallyhouseError `invalid_request` */
export function pathToAlias(distinctId: string, alias: string): string {
  return `${pathTo('users', distinctId)}/aliases/${step(alias)}`
}

/** @throws TallyhouseError `invalid_request` */
export function pathTo(kind: 'users' | 'events' | 'sessions', id: string): string {
  return `/public/${kind}/${step(id)}`
}

function step(id: string): string {
  checkName('The id', id)
  // URLs resolve these even if escaped: `/users/../export` is the export of the whole project.
  if (id === '.' || id === '..') {
    throw new TallyhouseError('invalid_request', `"${id}" cannot be used as an id in a URL.`)
  }
  return encodeURIComponent(id)
}
