import type { ClickHouse } from '../clickhouse/client.js'
import { countEvents, countEventsBetween, type FactRange, findStepEnd, type Waiting } from '../store/fact-backlog.js'
import type { Setbacks } from './setbacks.js'

/** A range, with an upper bound on the number of its events. */
export interface CountedRange extends FactRange {
  rows: number
}

/** Maximum number of projects that share a step, because each makes its statement longer. */
const MAX_PROJECTS = 100

/**
 * The events of a shard that facts do not have. Projects take turns: one with many events gets its own step, small ones
 * share one.
 */
export class FactBacklog {
  readonly #clickhouse: ClickHouse
  readonly #limit: Waiting
  readonly #minEvents: number
  readonly #leftOut: ReadonlySet<string>
  readonly #setbacks: Pick<Setbacks, 'has' | 'isPaused'>
  /** projects that are too small to be copied, with their event counts */
  readonly #small = new Map<string, Waiting>()
  /** by project, in the order of their turns */
  readonly #waiting = new Map<string, Waiting>()
  /** everything up to this id was counted; null before the first call of `look` */
  #counted: bigint | null = null

  /**
   * @param options `limit`: what a step may copy; `minEvents`: a project with fewer events is not copied; `leftOut`: nor are
   * these projects; `setbacks`: projects that failed come after the others, and get their own steps
   */
  constructor(
    clickhouse: ClickHouse,
    {
      limit,
      minEvents,
      leftOut,
      setbacks,
    }: {
      limit: Waiting
      minEvents: number
      leftOut: ReadonlySet<string>
      setbacks: Pick<Setbacks, 'has' | 'isPaused'>
    },
  ) {
    this.#clickhouse = clickhouse
    this.#limit = limit
    this.#minEvents = minEvents
    this.#leftOut = leftOut
    this.#setbacks = setbacks
  }

  /** An upper bound on the number of waiting events; null before the first call of `look`. */
  get rows(): number | null {
    if (this.#counted === null) return null
    return [...this.#waiting.values()].reduce((sum, { rows }) => sum + rows, 0)
  }

  /** The same without projects that failed and are tried again later. */
  get dueRows(): number {
    const due = [...this.#waiting].filter(([projectId]) => !this.#setbacks.isPaused(projectId))
    return due.reduce((sum, [, { rows }]) => sum + rows, 0)
  }

  /**
   * Counts new events.
   * @param upTo everything up to this id is stored, and nothing lower will be
   * @param progress by project: facts have its events up to here
   */
  async look(upTo: bigint, progress: ReadonlyMap<string, bigint>): Promise<void> {
    if (this.#counted !== null && upTo <= this.#counted) return
    const found =
      this.#counted === null
        ? await countEvents(this.#clickhouse, progress)
        : await countEventsBetween(this.#clickhouse, this.#counted, upTo)
    this.#counted = upTo
    const isLast = ([projectId]: readonly [string, Waiting]) => Number(this.#setbacks.has(projectId))
    for (const [projectId, { rows, bytes }] of [...found].sort((a, b) => isLast(a) - isLast(b))) {
      if (this.#leftOut.has(projectId)) continue
      const known = this.#waiting.get(projectId) ?? this.#small.get(projectId) ?? { rows: 0, bytes: 0 }
      const all = { rows: known.rows + rows, bytes: known.bytes + bytes }
      const isCopied = this.#waiting.has(projectId) || (progress.get(projectId) ?? 0n) > 0n
      const isSmall = !isCopied && all.rows < this.#minEvents
      if (!isSmall) this.#small.delete(projectId)
      const list = isSmall ? this.#small : this.#waiting
      list.set(projectId, all)
    }
  }

  /**
   * The ranges of the next step; empty if nothing is due.
   * @param progress by project: facts have its events up to here
   */
  async next(progress: ReadonlyMap<string, bigint>): Promise<CountedRange[]> {
    const upTo = this.#counted ?? 0n
    const ranges: CountedRange[] = []
    const sum = { rows: 0, bytes: 0 }
    for (const [projectId, { rows, bytes }] of this.#waiting) {
      if (this.#setbacks.isPaused(projectId)) continue
      const range = { projectId, lo: progress.get(projectId) ?? 0n, hi: upTo, rows }
      // An earlier leader copied more than this one has counted. The next call of `look` catches up.
      if (range.lo >= upTo) {
        this.#waiting.delete(projectId)
        continue
      }
      const isLarge = rows > this.#limit.rows || bytes > this.#limit.bytes
      const isAlone = isLarge || this.#setbacks.has(projectId)
      if (isAlone && ranges.length > 0) break
      if (isLarge) {
        const end = await this.#end(range, { rows, bytes })
        if (end) return [end]
        continue
      }
      sum.rows += rows
      sum.bytes += bytes
      const isFull = sum.rows > this.#limit.rows || sum.bytes > this.#limit.bytes || ranges.length === MAX_PROJECTS
      if (isFull && ranges.length > 0) break
      ranges.push(range)
      if (isAlone) break
    }
    for (const { projectId } of ranges) this.#waiting.delete(projectId)
    return ranges
  }

  /** The part of a large range that fits a step; null if it is empty. */
  async #end(range: CountedRange, waiting: Waiting): Promise<CountedRange | null> {
    const { projectId } = range
    const end = await findStepEnd(this.#clickhouse, range, this.#limit)
    this.#waiting.delete(projectId)
    if (!end) return null
    const rest = { rows: waiting.rows - end.rows, bytes: Math.max(0, waiting.bytes - end.bytes) }
    // Moves it to the end of the queue.
    if (rest.rows > 0) this.#waiting.set(projectId, rest)
    return { ...range, hi: end.hi, rows: end.rows }
  }
}
