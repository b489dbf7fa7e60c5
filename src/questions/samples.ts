import type { ClickHouseSettings } from '../clickhouse/parameters.js'
import { lastIdAt } from '../model/event-id.js'
import type { Barrier, ReadPoint } from '../reads/read-barrier.js'
import type { Backlog } from './backlog.js'
import {
  type Counts,
  estimateSize,
  isOutdated,
  LARGE,
  LARGE_LIST_MS,
  type NameCounts,
  RECOUNT_MS,
  ROOM,
} from './name-counts.js'
import { type IdRange, MAX_NAMES } from './names.js'
import { RefreshingCache } from './refreshing-cache.js'
import type { Questions } from './run.js'
import { computeSampleSize, countNamed, type Extent, FIRST, findNewestRange, WHOLE } from './sample-range.js'
import type { Query, QueryContext } from './statement.js'

/** Maximum age of a sample of a large project that is used while a new one is made, ms. */
const MAX_OLD_MS = 2 * RECOUNT_MS
/** Up to this many rows, one thread reads in small blocks: it stops sooner when there are enough events. */
const NEAR_ROWS = 100_000
const NEAR: ClickHouseSettings = { max_threads: 1, max_block_size: '8192' }
/** With buffering, ClickHouse would read far ahead in each part. */
const UNBUFFERED: ClickHouseSettings = { read_in_order_use_buffering: 0 }
/** One thread in the background, so that a client that waits for a list has the other core. */
const IN_BACKGROUND: ClickHouseSettings = { max_threads: 1 }

/** The query name of samples made by `upTo`. */
const UP_TO = 'up to a point'

/** The events to sample: those of a project, or those with one name. */
export interface SampledEvents {
  projectId: string
  event: string | undefined
}

type BuildQuery = (context: QueryContext, range: IdRange) => Query

/** The result of sampling events up to a position. */
interface Sample<Row> extends Pick<ReadPoint, 'stored' | 'deletions'> {
  begunAt: number
  rows: Row[]
  /** whether a sample made in the background would be no larger */
  isWhole: boolean
}

export interface SamplesOptions<Row> {
  counts: NameCounts
  barrier: Pick<Barrier, 'waitForProject'>
  questions: Pick<Questions, 'read'>
  backlog: Backlog
  /** monotonic clock, ms */
  clock(): number
  /** the strings of a row, to estimate its size */
  texts(row: Row): string[]
  /** the number of events in the sample */
  sampledIn(rows: readonly Row[]): number
}

/**
 * Rows about a project's newest events, or its newest events with one name. In a large project, the first call samples
 * few events, which takes about 50 ms; a larger sample is made in the background for the next call.
 */
export class Samples<Row> {
  readonly #options: SamplesOptions<Row>
  readonly #cache: RefreshingCache<Sample<Row>>

  constructor(options: SamplesOptions<Row>) {
    const { backlog, texts } = options
    this.#options = options
    this.#cache = new RefreshingCache<Sample<Row>>({
      room: ROOM,
      weigh: (key, { rows }) => estimateSize(key, rows.flatMap(texts)),
      backlog,
      isOutdated,
    })
  }

  /** @param name identifies the query @throws ApiError `overloaded`, `query_too_large` */
  async sample(looked: SampledEvents, name: string, query: BuildQuery): Promise<{ rows: Row[]; pending: number }> {
    const { barrier, clock, counts } = this.#options
    const { projectId } = looked
    const askedAt = clock()
    const point = await barrier.waitForProject(projectId)
    const { stored, deletions, pending } = point
    const known = await this.#countsFor(looked, point)
    const isLarge = known.total > LARGE
    const isYounger = ({ begunAt }: Sample<Row>, ms: number) => clock() - begunAt < ms
    const { rows } = await this.#cache.get(toSampleKey(looked, name), {
      projectId,
      // A list must not contain what was deleted since.
      isCurrent: (sample) =>
        sample.deletions === deletions &&
        (isLarge
          ? sample.isWhole && isYounger(sample, LARGE_LIST_MS)
          : sample.begunAt >= askedAt && sample.stored >= stored),
      suffices: (sample) => isLarge && sample.deletions === deletions && isYounger(sample, MAX_OLD_MS),
      make: () => (isLarge ? this.#first(looked, point, known, query) : this.#read(looked, point, known, WHOLE, query)),
      renew: async () =>
        await this.#read(looked, point, await counts.at(projectId, point), WHOLE, query, IN_BACKGROUND),
    })
    return { rows, pending }
  }

  /**
   * A new sample that includes everything up to a point; for a large project, a small one. The caller has waited at the
   * read barrier.
   * @throws like `sample`
   */
  async upTo(looked: SampledEvents, point: ReadPoint, counts: Counts, query: BuildQuery): Promise<Row[]> {
    const askedAt = this.#options.clock()
    const make = () => this.#read(looked, point, counts, counts.total > LARGE ? FIRST : WHOLE, query)
    const { rows } = await this.#cache.get(toSampleKey(looked, UP_TO), {
      projectId: looked.projectId,
      isCurrent: (sample) => sample.begunAt >= askedAt && sample.stored >= point.stored,
      suffices: () => false,
      make,
      renew: make,
    })
    return rows
  }

  /** The rows of the last samples of these events, which may be old. @param name as in `sample` */
  last(looked: SampledEvents, name = ''): Row[][] {
    const samples = [name, UP_TO].map((name) => this.#cache.last(toSampleKey(looked, name)))
    return samples.flatMap((sample) => (sample ? [sample.rows] : []))
  }

  /** For a large project, counts from before a deletion are good enough to find its events, unless few are left. */
  async #countsFor({ projectId, event }: SampledEvents, point: ReadPoint): Promise<Counts> {
    const { counts } = this.#options
    const last = counts.last(projectId)
    const suffices = last && last.deletions !== point.deletions && last.total > LARGE && countNamed(last, event) > 0
    return suffices ? last : await counts.at(projectId, point)
  }

  async #first(looked: SampledEvents, point: ReadPoint, known: Counts, query: BuildQuery): Promise<Sample<Row>> {
    const sample = await this.#read(looked, point, known, FIRST, query)
    const wanted = Math.min(computeSampleSize(known, looked.event, FIRST), countNamed(known, looked.event))
    const isEnough = this.#options.sampledIn(sample.rows) >= wanted
    if (known.deletions === point.deletions || isEnough) return sample
    return await this.#read(looked, point, await this.#options.counts.at(looked.projectId, point), FIRST, query)
  }

  async #read(
    { projectId, event }: SampledEvents,
    { stored, deletions }: ReadPoint,
    counts: Counts,
    extent: Extent,
    query: BuildQuery,
    settings: ClickHouseSettings = {},
  ): Promise<Sample<Row>> {
    const { clock, questions, sampledIn } = this.#options
    const begunAt = clock()
    const count = countNamed(counts, event)
    const isAllKnown = counts.names.size <= MAX_NAMES
    if (count === 0 && isAllKnown) return { stored, deletions, begunAt, rows: [], isWhole: true }
    const upTo = lastIdAt(stored)
    const range = findNewestRange(counts, event, upTo, extent)
    const isNear = (computeSampleSize(counts, event, extent) * counts.total) / Math.max(1, count) <= NEAR_ROWS
    const rows = (await questions.read(projectId, (context) => {
      const asks = query(context, range)
      return { ...asks, settings: { ...asks.settings, ...UNBUFFERED, ...(isNear && NEAR), ...settings } }
    })) as Row[]
    return { stored, deletions, begunAt, rows, isWhole: extent === WHOLE || (isAllKnown && sampledIn(rows) >= count) }
  }
}

function toSampleKey({ projectId, event }: SampledEvents, name: string): string {
  return JSON.stringify([projectId, event, name])
}
