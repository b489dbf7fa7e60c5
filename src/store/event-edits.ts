import type { ClickHouse } from '../clickhouse/client.js'
import { literal, QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'

/** A change of one stored event. */
export interface Edit {
  projectId: string
  eventId: string
  /** the new text of its properties; null deletes the event */
  properties: string | null
}

interface Waiting extends Edit {
  resolve(found: boolean): void
  reject(error: unknown): void
}

/** Edits that go into one statement at most, in number and in bytes of properties. */
const MAX_EDITS = 1000
const MAX_BYTES = 8 * 1024 * 1024
/** How long those that were just answered are waited for at most, ms, and never longer than the statement took. */
const MAX_GATHER_MS = 50

/** Edits and deletes of stored events, in the order of their calls within this process. */
export class EventEdits {
  readonly #shards: Shards
  readonly #edits: ShardEdits[]

  constructor(shards: Shards) {
    this.#shards = shards
    this.#edits = shards.all.map(({ clickhouse }) => new ShardEdits(clickhouse))
  }

  /**
   * @param home the number of the shard where the event should be, which is asked first
   * @returns false if the project has no such event; resolves when every later read shows the change
   */
  async apply(edit: Edit, home = 0): Promise<boolean> {
    const found = await this.#shards.find(home, async ({ number }) => {
      return (await this.#edits[number]?.apply(edit)) || null
    })
    return found !== null
  }
}

/**
 * Edits and deletes of the events of one shard. Each statement makes a patch part however many events it names, so what arrives
 * while one is running goes into the next, with what those send who were just answered: else 64 clients are 63 of one
 * statement and one of the next, which takes as long. Within this process they hold in the order of their calls; two processes
 * that edit one event at the same moment are not ordered.
 */
class ShardEdits {
  readonly #clickhouse: ClickHouse
  readonly #waiting: Waiting[] = []
  #isRunning = false
  /** at the end of the last statement: how many its callers were, and those that waited; its duration and its end, ms */
  #last = { callers: 0, ms: 0, endedAt: Number.NEGATIVE_INFINITY }
  /** set while others are waited for: ends that */
  #gathered: (() => void) | null = null

  constructor(clickhouse: ClickHouse) {
    this.#clickhouse = clickhouse
  }

  /** @returns false if the project has no such event; resolves when every later read shows the change */
  apply(edit: Edit): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...edit, resolve, reject })
      if (this.#areAllBack) this.#gathered?.()
      if (!this.#isRunning) this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // After this turn of the event loop, so that what arrived together goes together.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#waiting.length > 0) {
      await this.#gather()
      const edits = this.#take()
      const startedAt = performance.now()
      try {
        const found = await this.#carryOut(edits)
        edits.forEach(({ resolve }, i) => {
          resolve(found[i] ?? false)
        })
      } catch (error) {
        for (const { reject } of edits) reject(error)
      }
      const endedAt = performance.now()
      this.#last = { callers: edits.length + this.#waiting.length, ms: endedAt - startedAt, endedAt }
    }
    this.#isRunning = false
  }

  /** Whether as many wait as did lately. */
  get #areAllBack(): boolean {
    return this.#waiting.length >= Math.min(this.#last.callers, MAX_EDITS)
  }

  /** Resolves when all are back, or have had the time to be. */
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

  #take(): Waiting[] {
    let count = 0
    let bytes = 0
    for (const { properties } of this.#waiting) {
      bytes += properties?.length ?? 0
      if (count > 0 && (count === MAX_EDITS || bytes > MAX_BYTES)) break
      count++
    }
    return this.#waiting.splice(0, count)
  }

  /** Whether each edit found its event: one that comes after a delete of the same event finds none. */
  async #carryOut(edits: Edit[]): Promise<boolean[]> {
    const present = await this.#present(edits)
    const updates = new Map<string, string>()
    const deletes = new Set<string>()
    const found = edits.map(({ projectId, eventId, properties }) => {
      if (present.get(eventId) !== projectId || deletes.has(eventId)) return false
      if (properties !== null) {
        updates.set(eventId, properties)
      } else {
        updates.delete(eventId)
        deletes.add(eventId)
      }
      return true
    })
    if (updates.size > 0) await this.#update(updates, present)
    if (deletes.size > 0) await this.#delete(deletes, present)
    return found
  }

  /** Every row of the condition has a text here, so the old ones are not read: of 64 scattered events, 40 % of the work. */
  async #update(texts: Map<string, string>, projects: Map<string, string>): Promise<void> {
    const fields = new QueryParameters()
    const ids = [...texts.keys()]
    const values = Array.from(texts.values(), literal)
    await this.#clickhouse.command(
      `UPDATE events
       SET properties = transform(toString(event_id), ${fields.array(ids)}, [${values.join(', ')}])
       WHERE ${isOneOf(fields, ids, projectsOf(ids, projects))}`,
      fields.parameters,
    )
  }

  async #delete(ids: Set<string>, projects: Map<string, string>): Promise<void> {
    const fields = new QueryParameters()
    const condition = isOneOf(fields, [...ids], projectsOf(ids, projects))
    await this.#clickhouse.command(`DELETE FROM events WHERE ${condition}`, fields.parameters)
  }

  /** The events that are there, with their projects. */
  async #present(edits: Edit[]): Promise<Map<string, string>> {
    const fields = new QueryParameters()
    const ids = [...new Set(edits.map(({ eventId }) => eventId))]
    const projects = [...new Set(edits.map(({ projectId }) => projectId))]
    const rows = await this.#clickhouse.rows<{ project_id: string; id: string }>(
      `SELECT project_id, toString(event_id) AS id FROM events WHERE ${isOneOf(fields, ids, projects)}`,
      fields.parameters,
    )
    return new Map(rows.map(({ project_id, id }) => [id, project_id]))
  }
}

/** An id belongs to one project only, so the two need not be compared as pairs; the table is sorted by both. */
function isOneOf(fields: QueryParameters, ids: string[], projects: string[]): string {
  return `project_id IN ${fields.array(projects)} AND event_id IN ${fields.array(ids, 'UUID')}`
}

function projectsOf(ids: Iterable<string>, projects: Map<string, string>): string[] {
  return [...new Set(Array.from(ids, (id) => projects.get(id) ?? ''))]
}
