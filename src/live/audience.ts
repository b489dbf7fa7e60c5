import type { EventFilter, Names } from '../store/event-pages.js'
import type { Listener } from './listener.js'
import { asBytes, type LiveEvent } from './row-parser.js'

/** With more names, or more bytes of names, reading every event is cheaper than filtering by name. */
const MAX_NAMES = 2_000
const MAX_NAME_BYTES = 64 * 1024

/** Events for a group of listeners with the same filter. */
export interface Delivery {
  listeners: Listener[]
  frames: Buffer
  events: number
}

/** The listeners with one filter, which get the same buffers. */
interface Group {
  key: string
  wanted: EventFilter
  /** names, encoded as in LiveEvent */
  event: string | undefined
  distinctId: string | undefined
  sessionId: string | undefined
  /** only events after this id; empty for those that have caught up with the tail */
  after: string
  members: Set<Listener>
  frames: Buffer[]
}

/** The listeners that follow the tail of a project, indexed by their filters. */
export class Audience {
  readonly #groups = new Map<string, Group>()
  readonly #byEvent = new Map<string, Set<Group>>()
  readonly #byUser = new Map<string, Set<Group>>()
  /** groups without an event or user in their filter */
  readonly #others = new Set<Group>()
  readonly #touched = new Set<Group>()
  readonly #groupByListener = new Map<Listener, Group>()

  get size(): number {
    return this.#groupByListener.size
  }

  /** @param after the listener gets only events after this id */
  add(listener: Listener, after: string): void {
    const { event, distinctId, sessionId } = listener.wanted
    const key = after + listener.filterKey
    let group = this.#groups.get(key)
    if (!group) {
      group = {
        key,
        wanted: listener.wanted,
        event: event === undefined ? undefined : asBytes(event),
        distinctId: distinctId === undefined ? undefined : asBytes(distinctId),
        sessionId: sessionId === undefined ? undefined : asBytes(sessionId),
        after,
        members: new Set(),
        frames: [],
      }
      this.#groups.set(key, group)
      this.#findPlace(group).add(group)
    }
    group.members.add(listener)
    this.#groupByListener.set(listener, group)
  }

  remove(listener: Listener): void {
    const group = this.#groupByListener.get(listener)
    if (!group) return
    this.#groupByListener.delete(listener)
    group.members.delete(listener)
    if (group.members.size > 0) return
    this.#groups.delete(group.key)
    this.#touched.delete(group)
    this.#others.delete(group)
    for (const [index, name] of this.#indexes(group)) {
      const groups = index.get(name)
      groups?.delete(group)
      if (groups?.size === 0) index.delete(name)
    }
  }

  /** The names that all listeners together need; null if they need more than a few names. */
  names(): Names | null {
    if (this.#others.size > 0 || this.#groups.size > MAX_NAMES) return null
    const events = new Set<string>()
    const distinctIds = new Set<string>()
    let bytes = 0
    for (const { wanted } of this.#groups.values()) {
      if (wanted.distinctId !== undefined) distinctIds.add(wanted.distinctId)
      else if (wanted.event !== undefined) events.add(wanted.event)
      bytes += Buffer.byteLength(wanted.distinctId ?? wanted.event ?? '')
    }
    return bytes > MAX_NAME_BYTES ? null : { events: [...events], distinctIds: [...distinctIds] }
  }

  /** Queues an event for its listeners, until `take`. */
  offer(event: LiveEvent): void {
    this.#offerTo(this.#byUser.get(event.distinctId), event)
    this.#offerTo(this.#byEvent.get(event.event), event)
    this.#offerTo(this.#others, event)
  }

  /** Returns and clears the queued events: one buffer for all listeners with the same filter. */
  take(): Delivery[] {
    const deliveries = Array.from(this.#touched, ({ frames, members }) => {
      const delivery = { listeners: [...members], frames: Buffer.concat(frames), events: frames.length }
      frames.length = 0
      return delivery
    })
    this.#touched.clear()
    return deliveries
  }

  /** Moves listeners that have caught up past `id` into the shared group. */
  mergeCaughtUp(id: string): void {
    for (const { after, members } of [...this.#groups.values()]) {
      if (after === '' || after > id) continue
      for (const listener of [...members]) {
        this.remove(listener)
        this.add(listener, '')
      }
    }
  }

  #offerTo(groups: Set<Group> | undefined, event: LiveEvent): void {
    if (!groups) return
    for (const group of groups) {
      if (!matches(group, event)) continue
      group.frames.push(event.frame)
      this.#touched.add(group)
    }
  }

  #findPlace(group: Group): Set<Group> {
    const [place] = this.#indexes(group)
    if (!place) return this.#others
    const [index, name] = place
    const groups = index.get(name) ?? new Set()
    index.set(name, groups)
    return groups
  }

  /** The indexes that find a group: by its user, which is more selective than an event name, or by the event name. */
  #indexes({ distinctId, event }: Group): [Map<string, Set<Group>>, string][] {
    if (distinctId !== undefined) return [[this.#byUser, distinctId]]
    return event === undefined ? [] : [[this.#byEvent, event]]
  }
}

function matches({ after, event, distinctId, sessionId, wanted: { from, to } }: Group, live: LiveEvent): boolean {
  if (after !== '' && live.id <= after) return false
  if (event !== undefined && live.event !== event) return false
  if (distinctId !== undefined && live.distinctId !== distinctId) return false
  if (sessionId !== undefined && live.sessionId !== sessionId) return false
  return (from === undefined || live.timestamp >= from) && (to === undefined || live.timestamp < to)
}
