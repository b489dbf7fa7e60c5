import type { ClickHouse } from '../clickhouse/client.js'
import { StoreError } from '../clickhouse/errors.js'
import { literal, QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Journal } from '../journal/journal.js'
import { parseEventId } from '../model/event-id.js'
import { eraseEventsFromDeadLetters } from './dead-letter-erasure.js'
import { DeletionCounter } from './deleted-events.js'
import { ChangeLog, type ChangeScope, type RunningChange } from './event-changes.js'

/** An event and the project that the caller expects it to belong to. */
interface EventName {
  projectId: string
  eventId: string
}

/** A change of one stored event. */
export interface Edit extends EventName {
  /** its new properties as JSON; null deletes the event */
  properties: string | null
}

type Deletion = EventName & Pick<ShardEdit, 'isAway'>

interface Update extends Edit {
  properties: string
}

/** An edit of an event that one shard may have. */
interface ShardEdit extends Edit {
  /**
   * whether another shard should have the event; then its dead letter may be on the first shard, where an import of a
   * whole store puts all of them
   */
  isAway: boolean
}

interface WaitingEdit extends ShardEdit {
  resolve(found: boolean): void
  reject(error: unknown): void
}

/** Limits of one statement: number of edits, and bytes of their properties. */
const MAX_EDITS = 1000
const MAX_BYTES = 8 * 1024 * 1024
/** Concurrent statements read the same granules; the cache decompresses them only once. */
const SHARED_READS = { use_uncompressed_cache: 1 } as const
/**
 * Maximum time that a statement waits for the callers of the previous one, ms; never longer than the previous one took.
 */
const MAX_GATHER_MS = 50

/** Edits and deletes of stored events, in the order of their calls within this process. */
export class EventEdits {
  readonly #shards: Shards
  readonly #noteDeletion: Journal['noteDeletion']
  readonly #edits: ShardEdits[]

  /** @param noteDeletion counts a deletion of the project's events, visible to all processes */
  constructor(shards: Shards, noteDeletion: Journal['noteDeletion']) {
    this.#shards = shards
    this.#noteDeletion = noteDeletion
    this.#edits = shards.all.map(({ clickhouse }) => new ShardEdits(clickhouse, shards.first))
  }

  /**
   * @param home number of the shard that should have the event, which is searched first
   * @returns false if the project has no such event; resolves when every later read shows the change
   */
  async apply(edit: Edit, home = 0): Promise<boolean> {
    try {
      const found = await this.#shards.find(home, async ({ number }) => {
        return (await this.#edits[number]?.apply({ ...edit, isAway: number !== home })) || null
      })
      return found !== null
    } finally {
      // Do this even if it has failed or found nothing: an earlier attempt may have deleted the event.
      if (edit.properties === null) await this.#noteDeletion(edit.projectId)
    }
  }

  /**
   * Deletes an event that is in a dead letter, so that no replay brings it back.
   * @param home as for `apply`
   * @returns false if the project has no such event in a dead letter
   */
  async deleteFromDeadLetters({ projectId, eventId }: EventName, home = 0): Promise<boolean> {
    const place = parseEventId(eventId)
    if (!place) return false
    const erased = await this.#shards.each(({ clickhouse }) =>
      eraseEventsFromDeadLetters(clickhouse, projectId, [place]),
    )
    if (!erased.includes(true)) return false
    // A replay may have stored it since it was looked for among the stored ones.
    await this.apply({ projectId, eventId, properties: null }, home)
    return true
  }

  /** Waits for the log of changes to be written, for a few seconds at most. */
  async close(): Promise<void> {
    await Promise.all(this.#edits.map((edits) => edits.close()))
  }
}

/**
 * Edits and deletes of the events of one shard. Each statement creates one patch part, however many events it names, so
 * edits that arrive while one is running share the next. The next one waits briefly for new edits of the callers that
 * were just answered: otherwise 64 clients would alternate between statements with 63 edits and with 1, which take
 * equally long. Edits apply in the order of their calls within this process; the order of concurrent edits of two
 * processes is undefined.
 */
class ShardEdits {
  readonly #clickhouse: ClickHouse
  readonly #first: ClickHouse
  readonly #counter: DeletionCounter
  readonly #log: ChangeLog
  readonly #waiting: WaitingEdit[] = []
  #isRunning = false
  /** the last statement: its callers plus those waiting when it ended, its duration in ms, and when it ended */
  #last = { callers: 0, ms: 0, endedAt: Number.NEGATIVE_INFINITY }
  /** ends the wait for further edits; null while not waiting */
  #gathered: (() => void) | null = null

  /** @param first the first shard */
  constructor(clickhouse: ClickHouse, first: ClickHouse) {
    this.#clickhouse = clickhouse
    this.#first = first
    this.#counter = new DeletionCounter(clickhouse)
    this.#log = new ChangeLog(clickhouse)
  }

  /** @returns false if the project has no such event; resolves when every later read shows the change */
  apply(edit: ShardEdit): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...edit, resolve, reject })
      if (this.#areAllBack) this.#gathered?.()
      if (!this.#isRunning) this.#run()
    })
  }

  async close(): Promise<void> {
    await this.#log.close()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // Wait for this turn of the event loop, so that edits which arrive together share a statement.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#waiting.length > 0) {
      await this.#gather()
      const edits = this.#take()
      const startedAt = performance.now()
      try {
        await this.#carryOut(edits)
      } catch (error) {
        for (const { reject } of edits) reject(error)
      }
      const endedAt = performance.now()
      this.#last = { callers: edits.length + this.#waiting.length, ms: endedAt - startedAt, endedAt }
    }
    this.#isRunning = false
  }

  /** Whether as many edits are waiting as the last statement had callers. */
  get #areAllBack(): boolean {
    return this.#waiting.length >= Math.min(this.#last.callers, MAX_EDITS)
  }

  /** Resolves once all last callers are back, or after MAX_GATHER_MS. */
  async #gather(): Promise<void> {
    const { ms, endedAt } = this.#last
    const leftMs = endedAt + Math.min(ms, MAX_GATHER_MS) - performance.now()
    if (leftMs <= 0 || this.#areAllBack) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      this.#gathered = resolve
      timer = setTimeout(resolve, leftMs)
    })
    clearTimeout(timer)
    this.#gathered = null
  }

  #take(): WaitingEdit[] {
    let count = 0
    let bytes = 0
    const projects = new Map<string, string>()
    for (const { projectId, eventId, properties } of this.#waiting) {
      bytes += properties?.length ?? 0
      if (count > 0 && (count === MAX_EDITS || bytes > MAX_BYTES)) break
      // An event belongs to one project, and a statement has one new value for each event.
      if ((projects.get(eventId) ?? projectId) !== projectId) break
      projects.set(eventId, projectId)
      count++
    }
    return this.#waiting.splice(0, count)
  }

  /**
   * Executes edits, and resolves each with whether it found its event; an edit after a delete of the same event finds
   * none. ClickHouse does not report how many rows an update matched, so a query looks for the events concurrently, and
   * before the deletes. If the deletes fail, for example on a full disk, the updates are stored anyway, and resolve.
   * @throws the error of the log, of the update or of the query, before resolving any edit
   */
  async #carryOut(edits: WaitingEdit[]): Promise<void> {
    const { updates, deletes } = combineEdits(edits)
    // An interrupted deletion may have counted the same events. Wait for it before the change begins: one that takes
    // seconds is abandoned.
    const projects = [...new Set(deletes.map(({ projectId }) => projectId))]
    await Promise.all(projects.map((projectId) => this.#counter.settle(projectId)))
    const looking = this.#find(edits)
    // The result is awaited below; this only prevents an unhandled rejection until then.
    looking.catch(() => undefined)
    const { present, found, failures } = await this.#log.run(toScopes(edits), async (change) => {
      // Wait for both: otherwise one that is still running could overtake the next statement.
      const [look, update] = await Promise.allSettled([looking, this.#update(updates, change)])
      if (update.status === 'rejected') throw update.reason
      if (look.status === 'rejected') throw look.reason
      const present = look.value
      const missed = edits.filter(({ eventId }) => !present.has(eventId))
      if (missed.length > 0) {
        // An event that a replay stored during the look-up may or may not have been updated.
        const late = await this.#find(missed)
        await this.#update(
          updates.filter(({ eventId }) => late.has(eventId)),
          change,
        )
        for (const id of late) present.add(id)
      }
      change.narrow(toScopes(edits, present))
      const found = deletes.filter(({ eventId }) => present.has(eventId))
      const failures = await this.#delete(found, change)
      // ClickHouse may still be running a statement.
      if ([...failures.values()].some((error) => !(error instanceof StoreError))) change.abandon()
      return { present, found, failures }
    })
    for (const { projectId, eventId, properties, resolve, reject } of edits) {
      if (failures.has(projectId) && found.some((one) => one.eventId === eventId)) reject(failures.get(projectId))
      else resolve(properties === null ? present.delete(eventId) : present.has(eventId))
    }
  }

  /** `transform` has a value for every matching row, so old properties are not read, which saves 40 %. */
  async #update(updates: Update[], { fence, parameters }: RunningChange): Promise<void> {
    if (updates.length === 0) return
    const fields = new QueryParameters()
    const ids = updates.map(({ eventId }) => eventId)
    const texts = updates.map(({ properties }) => literal(properties))
    await this.#clickhouse.command(
      `UPDATE events
       SET properties = transform(toString(event_id), ${fields.array(ids)}, [${texts.join(', ')}])
       WHERE (${matchEvents(fields, updates)}) AND ${fence}`,
      { ...fields.parameters, ...parameters },
      SHARED_READS,
    )
  }

  /** Deletes existing events, project by project. @returns by project: the error if it failed */
  async #delete(deletes: Deletion[], change: RunningChange): Promise<Map<string, unknown>> {
    const failures = new Map<string, unknown>()
    for (const projectId of new Set(deletes.map((one) => one.projectId))) {
      const ofProject = deletes.filter((one) => one.projectId === projectId)
      const fields = new QueryParameters()
      const condition = matchEvents(fields, ofProject)
      const { parameters } = fields
      const all = { ...parameters, ...change.parameters }
      const run = async () => {
        await this.#eraseFromDeadLetters(projectId, ofProject)
        await this.#clickhouse.command(`DELETE FROM events WHERE (${condition}) AND ${change.fence}`, all, SHARED_READS)
      }
      const left = { query: `SELECT count() AS count FROM events WHERE ${condition}`, parameters }
      await this.#counter
        .run(projectId, { count: ofProject.length, left, run })
        .catch((error: unknown) => failures.set(projectId, error))
    }
    return failures
  }

  async #eraseFromDeadLetters(projectId: string, deletes: Deletion[]): Promise<void> {
    const isFirst = this.#first === this.#clickhouse
    for (const [clickhouse, there] of [
      [this.#clickhouse, deletes],
      [this.#first, isFirst ? [] : deletes.filter(({ isAway }) => isAway)],
    ] as const) {
      const places = there.map(({ eventId }) => parseEventId(eventId)).filter((place) => place !== null)
      // Do not wait for interrupted deletions within the change.
      if (places.length > 0) await eraseEventsFromDeadLetters(clickhouse, projectId, places, 0)
    }
  }

  /** The ids of the events that exist. */
  async #find(edits: EventName[]): Promise<Set<string>> {
    const fields = new QueryParameters()
    const rows = await this.#clickhouse.rows<{ id: string }>(
      `SELECT toString(event_id) AS id FROM events WHERE ${matchEvents(fields, edits)}`,
      fields.parameters,
      SHARED_READS,
    )
    return new Set(rows.map(({ id }) => id))
  }
}

/** The events that edits change, by their projects. @param present ids of those that exist; default: all */
function toScopes(edits: EventName[], present?: ReadonlySet<string>): Map<string, ChangeScope> {
  const scopes = Array.from(groupIds(edits), ([project, ids]): [string, ChangeScope] => {
    return [project, { kind: 'events', ids: ids.filter((id) => !present || present.has(id)) }]
  })
  return new Map(scopes)
}

/** The distinct ids of events by project. */
function groupIds(events: EventName[]): Map<string, string[]> {
  const ids = new Map<string, Set<string>>()
  for (const { projectId, eventId } of events) ids.set(projectId, (ids.get(projectId) ?? new Set()).add(eventId))
  return new Map(Array.from(ids, ([projectId, ofProject]) => [projectId, [...ofProject]]))
}

/** Combines edits, assuming that their events exist: the last properties of each event, unless it is deleted. */
function combineEdits(edits: ShardEdit[]): { updates: Update[]; deletes: Deletion[] } {
  const updates = new Map<string, Update>()
  const deletes = new Map<string, Deletion>()
  for (const { projectId, eventId, properties, isAway } of edits) {
    if (properties === null) {
      updates.delete(eventId)
      deletes.set(eventId, { projectId, eventId, isAway })
    } else if (!deletes.has(eventId)) {
      updates.set(eventId, { projectId, eventId, properties })
    }
  }
  return { updates: [...updates.values()], deletes: [...deletes.values()] }
}

/** SQL condition for rows that are one of these events and belong to its project. */
function matchEvents(fields: QueryParameters, events: EventName[]): string {
  const ofProjects = Array.from(groupIds(events), ([projectId, ids]) => {
    return `(project_id = ${fields.text(projectId)} AND event_id IN ${fields.array(ids, 'UUID')})`
  })
  return ofProjects.join(' OR ')
}
