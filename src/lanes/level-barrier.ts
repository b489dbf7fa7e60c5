import type { Progress } from '../journal/journal.js'
import type { Log } from '../lib/log.js'
import { formatPosition, maxPosition, type Position, START } from '../model/position.js'
import {
  type Barrier,
  formatDeletions,
  READ_BARRIER_MS,
  type Reach,
  type ReadPoint,
  toNotCaughtUpError,
  untilStored,
} from '../reads/read-barrier.js'
import type { Lane } from './lane.js'

export interface LevelBarrierOptions {
  log: Pick<Log, 'warn'>
  /** ends every wait as a timeout does */
  closing: AbortSignal
  /** how long a read waits, ms; default 5 000 */
  limitMs?: number
}

/** Minimum time between two warnings that a lane's clock is slow, ms. */
const WARNING_MS = 60_000

/**
 * Read-your-writes over several lanes, whose clocks differ and some of which may be idle. A reader takes the greatest
 * position that any lane has assigned, lifts all lanes to it, so that no lane can assign a smaller one, and waits until
 * each lane has stored everything up to it.
 */
export class LevelBarrier implements Barrier {
  /** by lane: reads that timed out because its clock is more than a minute slower than another lane's */
  readonly lateClockReads: number[]
  readonly #lanes: readonly Pick<Lane, 'name' | 'fullName' | 'journal'>[]
  readonly #options: LevelBarrierOptions
  #warnedAt = Number.NEGATIVE_INFINITY

  constructor(lanes: readonly Pick<Lane, 'name' | 'fullName' | 'journal'>[], options: LevelBarrierOptions) {
    this.lateClockReads = lanes.map(() => 0)
    this.#lanes = lanes
    this.#options = options
  }

  /**
   * Like `ReadBarrier.waitForProject`. If a lane is late, `pending` may be too low, because events that other lanes
   * have stored beyond that lane's position are not counted. It is at least 1 then, even if none is of this project.
   * @throws ApiError `unavailable` that names a lane that cannot be reached
   */
  async waitForProject(projectId: string): Promise<ReadPoint> {
    const { wanted, progress } = await this.#wait(projectId)
    const stored = findLeast(progress, 'stored', wanted)
    const hidden = progress.some((lane) => lane.stored > stored) ? 1 : 0
    const pending = stored < wanted ? Math.max(hidden, sum(progress.map(({ pending }) => pending))) : 0
    const deletions = this.#lanes.flatMap(({ journal }, i) => {
      const lane = progress[i]
      return lane ? formatDeletions(journal, lane) : []
    })
    return { stored, pending, deletions: deletions.join() }
  }

  /** Like `ReadBarrier.requireProject`. @throws like `waitForAll` */
  async requireProject(projectId: string): Promise<Position> {
    return this.#require(await this.#wait(projectId))
  }

  /**
   * Like `ReadBarrier.waitForAll`.
   * @throws like `waitForProject`; after 5 s, ApiError `unavailable` that names the lanes that are late
   */
  async waitForAll(): Promise<Position> {
    return this.#require(await this.#wait())
  }

  #require({ wanted, progress }: { wanted: Position; progress: Progress[] }): Position {
    const late = this.#behind(progress, wanted)
    if (late.length === 0) return wanted
    throw toNotCaughtUpError(late.map((i) => this.#lanes[i]?.fullName).join(', '))
  }

  /**
   * Like `ReadBarrier.reach`, but lifts the lanes that are late.
   * @throws like `waitForProject`
   */
  async reach(): Promise<Reach> {
    const progress = await Promise.all(this.#lanes.map(({ journal }) => journal.progress()))
    const wanted = progress.reduce((last, { appended }) => maxPosition(last, appended), START)
    await this.#lift(progress, wanted)
    // A lane whose clock is very slow cannot be lifted all the way.
    const accepted = findLeast(progress, 'appended', wanted)
    return { accepted, stored: findLeast(progress, 'stored', wanted) }
  }

  /** Lifts the lanes that have not stored everything up to a position, and updates their entries in `progress`. */
  async #lift(progress: Progress[], wanted: Position, projectId?: string): Promise<void> {
    await Promise.all(
      this.#behind(progress, wanted).map(async (i) => {
        const lane = this.#lanes[i]
        if (lane) progress[i] = progressFor(projectId, await lane.journal.level(wanted, projectId))
      }),
    )
  }

  /** @returns the position that all lanes were lifted to, and the progress of each lane after the wait */
  async #wait(projectId?: string): Promise<{ wanted: Position; progress: Progress[] }> {
    const { limitMs = READ_BARRIER_MS, closing } = this.#options
    const deadline = Date.now() + limitMs
    const found = await Promise.all(this.#lanes.map(({ journal }) => journal.progress(projectId)))
    const progress = found.map((lane) => progressFor(projectId, lane))
    const wanted = progress.reduce((last, { appended }) => maxPosition(last, appended), START)
    for (;;) {
      await this.#lift(progress, wanted, projectId)
      const behind = this.#behind(progress, wanted).flatMap((i) => this.#lanes[i]?.journal ?? [])
      if (behind.length === 0) return { wanted, progress }
      if (Date.now() >= deadline || closing.aborted) {
        this.#reportClocks(wanted, progress)
        return { wanted, progress }
      }
      const changed = untilStored(behind, deadline)
      for (const journal of behind) journal.wakeWriter()
      await changed
    }
  }

  /** The numbers of the lanes that have not stored everything up to a position. */
  #behind(progress: Progress[], wanted: Position): number[] {
    return progress.flatMap(({ stored }, i) => (stored < wanted ? [i] : []))
  }

  /** A lane that could not be lifted has a clock that is far behind the fastest one. */
  #reportClocks(wanted: Position, progress: Progress[]): void {
    const low = [...progress.keys()].filter((i) => (progress[i]?.appended ?? START) < wanted)
    for (const i of low) this.lateClockReads[i] = (this.lateClockReads[i] ?? 0) + 1
    if (low.length === 0 || performance.now() - this.#warnedAt < WARNING_MS) return
    this.#warnedAt = performance.now()
    this.#options.log.warn(
      { lanes: low.map((i) => this.#lanes[i]?.name), position: formatPosition(wanted) },
      'the clocks of the journals differ by more than a minute, so reads lag; synchronise the clocks',
    )
  }
}

/** In a lane that has stored everything of a project, waiting data of other projects does not delay its readers. */
function progressFor(projectId: string | undefined, progress: Progress): Progress {
  const { appended, stored, isStored } = progress
  return projectId !== undefined && isStored ? { ...progress, stored: maxPosition(stored, appended) } : progress
}

/**
 * The least position of a kind, at most `wanted`. The least `stored` one is the end of a page: everything up to it is
 * stored, and all positions assigned later come after it.
 */
function findLeast(progress: Progress[], kind: 'appended' | 'stored', wanted: Position): Position {
  let least = wanted
  for (const { [kind]: position } of progress) if (position < least) least = position
  return least
}

function sum(counts: number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}
