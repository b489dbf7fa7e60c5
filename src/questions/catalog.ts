import type { Shards } from '../clickhouse/shards.js'
import type { FieldName } from '../contract/questions.js'
import type { EventName, EventNames, FieldValue, FieldValues, PropertyNames } from '../contract/responses.js'
import type { Log } from '../lib/log.js'
import { lastIdAt } from '../model/event-id.js'
import type { Barrier } from '../pipeline/level-barrier.js'
import type { ReadPoint } from '../pipeline/read-barrier.js'
import { findPageStart } from '../store/event-pages.js'
import { Kept } from './kept.js'
import type { Query } from './kind.js'
import {
  type EventRow,
  eventNames,
  fieldValues,
  type IdRange,
  largestProjects,
  MAX_MONTHLY_NAMES,
  MAX_NAMES,
  type MonthRow,
  monthlyNames,
  monthOf,
  type PropertyRow,
  partsOfMonths,
  propertiesOf,
  propertyNames,
  type ValueRow,
} from './names.js'
import type { Questions } from './run.js'
import type { Asked } from './statement.js'

/** What values a field has. */
export interface ValuesWanted {
  field: FieldName
  event?: string | undefined
  /** only values that hold this text, in any case */
  search?: string | undefined
  limit: number
}

export interface CatalogOptions {
  shards: Shards
  barrier: Pick<Barrier, 'waitForProject'>
  questions: Pick<Questions, 'read'>
  log: Pick<Log, 'info'>
  /** ms that only rise; default: performance.now() */
  clock?: () => number
}

/** Properties and their values are looked for in so many of the newest events. */
const SAMPLE = 20_000
/** Of a rare event each may be in a granule of its own, which is read as a whole, so fewer are looked at; but so many. */
const LEAST_SAMPLE = 200
/** Rows that are read for a sample of events of one name, about: their properties take most of the time that a list takes. */
const SAMPLE_ROWS = 250_000
/** In projects with more events than this, a list may be a bit old; in others it is always made anew. */
const LARGE = 100_000
const LARGE_LIST_MS = 15_000
/** So that events whose ids are late, as those of dead letters that were replayed, are counted, too. */
const RECOUNT_MS = 10 * 60_000
/** For so long, what is known of a large project does while it is made anew, ms: counts after a deletion, old samples. */
const MAX_OLD_MS = 2 * RECOUNT_MS
/** Projects that are counted before anybody asks. */
const PREPARED = 20
/** Characters of all that is kept. */
const ROOM = 32 * 1024 * 1024
/** What an object takes up beside its texts, in characters. */
const OBJECT = 50

/** How many events a project has of each name, up to a position. */
interface Counts extends Pick<ReadPoint, 'stored' | 'deletions'> {
  countedAt: number
  names: Map<string, EventName>
  total: number
  /** what was counted at `countedAt`, by the month of the ids; null where there were too many names */
  months: ReadonlyMap<string, Month> | null
}

/** The events of a month. */
interface Month {
  /** what its parts were before it was counted */
  parts: string
  rows: EventRow[]
}

/** What a sample had, up to a position. */
interface Sample<Row> extends Pick<ReadPoint, 'stored' | 'deletions'> {
  begunAt: number
  rows: Row[]
}

/** Where the newest events of a name begin. */
interface Start {
  id: string | null
  /** how many there were of the name, and how many of the newest are from there on */
  count: number
  size: number
}

/** The events that are looked at, and of what project. */
interface Looked {
  projectId: string
  event: string | undefined
}

/**
 * What there is to ask about. The events of a project are counted by name once, and then only those that come; a deletion
 * makes those months be counted again in which something was changed, and whoever asks waits for that: nothing deleted is in a
 * later response. Properties and values are those of the newest events.
 */
export class Catalog {
  readonly #options: CatalogOptions
  readonly #clock: () => number
  readonly #counts = new Kept<Counts>({
    room: ROOM,
    weigh: (key, { names, months }) =>
      [...(months?.values() ?? [])].reduce(
        (sum, { rows }) =>
          sum +
          textsOf(
            '',
            rows.map(({ event }) => event),
          ),
        textsOf(key, [...names.keys()]),
      ),
  })
  readonly #properties = new Kept<Sample<PropertyRow>>({
    room: ROOM,
    weigh: (key, { rows }) =>
      textsOf(
        key,
        rows.flatMap(({ name, examples }) => [name, ...examples.flat()]),
      ),
  })
  readonly #values = new Kept<Sample<ValueRow>>({
    room: ROOM,
    weigh: (key, { rows }) =>
      textsOf(
        key,
        rows.map(({ value }) => value),
      ),
  })

  readonly #starts = new Kept<Start>({ room: ROOM, weigh: (key) => textsOf(key, []) })
  /** projects that are counted again in the background */
  readonly #recounts = new Map<string, Promise<void>>()

  constructor(options: CatalogOptions) {
    this.#options = options
    this.#clock = options.clock ?? (() => performance.now())
  }

  /**
   * Counts the events of the largest projects by name, so that the first who asks does not wait for that. Never rejects:
   * what the store keeps it from counting is left to whoever asks.
   */
  async prepare(): Promise<void> {
    const { shards, log } = this.#options
    try {
      for (const projectId of await largestProjects(shards, { than: LARGE, limit: PREPARED }))
        await this.events(projectId)
    } catch (error) {
      log.info({ err: error }, 'the names of events could not be counted yet; the first who asks for them waits for it')
    }
  }

  /** Resolves when nothing is counted or sampled in the background. */
  async settled(): Promise<void> {
    await Promise.all([...this.#recounts.values(), this.#properties.settled(), this.#values.settled()])
  }

  /** The names of a project's events, most first. @throws ApiError `overloaded`, `query_too_large` */
  async events(projectId: string): Promise<EventNames> {
    const point = await this.#options.barrier.waitForProject(projectId)
    const { names } = await this.#count(projectId, point)
    const events = [...names.values()].sort((a, b) => b.count - a.count || (a.event < b.event ? -1 : 1))
    return { events: events.slice(0, MAX_NAMES), pending: point.pending }
  }

  /** The properties of a project's newest events, or of those of a name; most first. @throws as `events` */
  async properties(looked: Looked): Promise<PropertyNames> {
    const { rows, pending } = await this.#sample(this.#properties, looked, '', propertyNames)
    const sampled = Number(rows.find(({ type }) => type === 'none')?.count ?? 0)
    return { properties: propertiesOf(rows, sampled), sampled, pending }
  }

  /** The values of a field in a project's newest events, or in those of a name; most first. @throws as `events` */
  async values(projectId: string, { field, event, search = '', limit }: ValuesWanted): Promise<FieldValues> {
    const query = (asked: Asked, range: IdRange) => fieldValues(asked, range, field)
    const { rows, pending } = await this.#sample(this.#values, { projectId, event }, JSON.stringify(field), query)
    const values: FieldValue[] = []
    const wanted = search.toLowerCase()
    for (const { value: json, count } of rows) {
      if (values.length === limit) break
      if (json === '' || json === 'null') continue
      const value: unknown = JSON.parse(json)
      const text = typeof value === 'string' ? value : json
      if (text.toLowerCase().includes(wanted)) values.push({ value, count: Number(count) })
    }
    const sampled = rows.reduce((total, { count }) => total + Number(count), 0)
    return { values, sampled, pending }
  }

  async #count(projectId: string, point: ReadPoint): Promise<Counts> {
    const { stored, deletions } = point
    const isCurrent = (known: Counts) =>
      this.#canGoOn(known, point) ? known.stored >= stored : this.#isPartial(known) && known.deletions === deletions
    const counts = await this.#counts.get(projectId, isCurrent, async (known) => {
      if (!known || !this.#canGoOn(known, point)) return await this.#countAll(projectId, point, known)
      const rows = await this.#countRange(projectId, { after: lastIdAt(known.stored), upTo: lastIdAt(stored) })
      const names = new Map(known.names)
      const added = addTo(names, rows)
      return { ...known, stored, names, total: known.total + added }
    })
    if (this.#clock() - counts.countedAt >= RECOUNT_MS) this.#recount(projectId, point, counts)
    return counts
  }

  /** Whether what has come since is all that has to be counted now. */
  #canGoOn({ names, total, countedAt, deletions }: Counts, point: ReadPoint): boolean {
    if (names.size > MAX_NAMES || deletions !== point.deletions) return false
    return total > LARGE || this.#clock() - countedAt < RECOUNT_MS
  }

  /** Counts all in the background, once at a time. If that fails, the next who asks begins it again. */
  #recount(projectId: string, point: ReadPoint, known: Counts): void {
    if (known.names.size > MAX_NAMES || this.#recounts.has(projectId)) return
    const recount = async () => {
      const counts = await this.#countAll(projectId, point, known)
      // After who counts what has come meanwhile, so that it is not lost.
      await this.#counts.get(
        projectId,
        () => false,
        async () => counts,
      )
    }
    const done = recount().catch((error: unknown) => {
      this.#options.log.info({ err: error, projectId }, 'the names of events could not be counted again')
    })
    this.#recounts.set(
      projectId,
      done.finally(() => this.#recounts.delete(projectId)),
    )
  }

  /** @param known of these, the months that have not changed since are not counted again */
  async #countAll(
    projectId: string,
    point: Pick<ReadPoint, 'stored' | 'deletions'>,
    known: Counts | undefined,
  ): Promise<Counts> {
    const countedAt = this.#clock()
    const upTo = lastIdAt(point.stored)
    const months = known?.months === null ? null : await this.#countMonths(projectId, upTo, known?.months ?? new Map())
    const names = new Map<string, EventName>()
    const rows = months ? [...months.values()].flatMap((month) => month.rows) : null
    const total = addTo(names, rows ?? (await this.#countRange(projectId, { after: null, upTo })))
    return { ...point, countedAt, names, total, months }
  }

  /** @returns null if there are too many names */
  async #countMonths(
    projectId: string,
    upTo: string,
    known: ReadonlyMap<string, Month>,
  ): Promise<Map<string, Month> | null> {
    const { shards, questions } = this.#options
    // Before they are counted, so that what changes meanwhile is counted next time.
    const parts = await partsOfMonths(shards)
    const last = monthOf(upTo)
    const months = new Map<string, Month>()
    for (const [month, text] of parts) {
      const before = known.get(month)
      if (month < last) months.set(month, before?.parts === text ? before : { parts: text, rows: [] })
    }
    const changed = [...months].filter(([month, now]) => known.get(month) !== now).map(([month]) => month)
    const rows = await questions.read(projectId, (asked) => monthlyNames(asked, { upTo, months: changed }))
    if (rows.length >= MAX_MONTHLY_NAMES) return null
    for (const { month, ...row } of rows as MonthRow[]) {
      // The last one has events that are not counted yet, so nothing says whether it has changed.
      const counted = months.get(month) ?? { parts: '', rows: [] }
      counted.rows.push(row)
      months.set(month, counted)
    }
    return months
  }

  async #countRange(projectId: string, range: IdRange): Promise<EventRow[]> {
    return (await this.#options.questions.read(projectId, (asked) => eventNames(asked, range))) as EventRow[]
  }

  /** Too many names to go on from: those of a while ago have to do. */
  #isPartial({ names, countedAt }: Counts): boolean {
    return names.size > MAX_NAMES && this.#clock() - countedAt < LARGE_LIST_MS
  }

  async #sample<Row>(
    kept: Kept<Sample<Row>>,
    { projectId, event }: Looked,
    name: string,
    query: (asked: Asked, range: IdRange) => Query,
  ): Promise<{ rows: Row[]; pending: number }> {
    const { barrier, questions } = this.#options
    const askedAt = this.#clock()
    const point = await barrier.waitForProject(projectId)
    const { stored, deletions, pending } = point
    const { names, total } = await this.#count(projectId, point)
    const isAllKnown = names.size <= MAX_NAMES
    const count = event === undefined ? total : (names.get(event)?.count ?? 0)
    if (isAllKnown && count === 0) return { rows: [], pending }
    const isYounger = (known: Sample<Row>, ms: number) => total > LARGE && this.#clock() - known.begunAt < ms
    const isCurrent = (known: Sample<Row>) =>
      known.deletions === deletions &&
      (total > LARGE ? isYounger(known, LARGE_LIST_MS) : known.begunAt >= askedAt && known.stored >= stored)
    // What was deleted is in no list.
    const willDo = (known: Sample<Row>) => known.deletions === deletions && isYounger(known, MAX_OLD_MS)
    const make = async () => {
      const begunAt = this.#clock()
      const upTo = lastIdAt(stored)
      const rows = await questions.read(projectId, async (asked) => {
        const size = isAllKnown ? sampleSize(count, total) : SAMPLE
        const hasAll = isAllKnown && count <= size
        const after = hasAll ? null : await this.#findStart({ projectId, event }, { upTo, size, count })
        return query(asked, { after, upTo, event })
      })
      return { stored, deletions, begunAt, rows: rows as Row[] }
    }
    const { rows } = await kept.get(JSON.stringify([projectId, event, name]), isCurrent, make, willDo)
    return { rows, pending }
  }

  /**
   * Where the newest events begin: some `size` of those of a name, whose start is known from before until half as many more
   * have come, as it takes longer to find than they take to read.
   * @param count how many there are in all
   */
  async #findStart(
    { projectId, event }: Looked,
    { upTo, size, count }: { upTo: string; size: number; count: number },
  ): Promise<string | null> {
    const newest = { projectId, order: 'desc' as const, upTo, offset: size }
    if (event === undefined) return await findPageStart(this.#options.shards, newest)
    // A name gets rare as others come: then its sample is spread over too many rows.
    const isCurrent = (known: Start) => Math.abs(count - known.count) <= size / 2 && known.size <= 2 * size
    const start = await this.#starts.get(JSON.stringify([projectId, event]), isCurrent, async () => {
      return { id: await findPageStart(this.#options.shards, { ...newest, event }), count, size }
    })
    return start.id
  }
}

/** How many of so many events to look at, which are spread over all of a project's. */
function sampleSize(count: number, total: number): number {
  return Math.min(SAMPLE, Math.max(LEAST_SAMPLE, Math.floor((SAMPLE_ROWS * count) / total)))
}

/** @returns how many events there were */
function addTo(names: Map<string, EventName>, rows: readonly EventRow[]): number {
  let total = 0
  for (const { event, count, first, last } of rows) {
    const known = names.get(event)
    total += Number(count)
    names.set(event, {
      event,
      count: (known?.count ?? 0) + Number(count),
      first_seen: Math.min(known?.first_seen ?? first, first),
      last_seen: Math.max(known?.last_seen ?? last, last),
    })
  }
  return total
}

function textsOf(key: string, texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length + OBJECT, key.length + OBJECT)
}
