/** How long after requests of different projects the journal counts as shared, ms. */
const SHARED_MS = 1_000
/** A larger write is bulk. */
const SMALL_BYTES = 16 * 1024
/** Bulk of one write while the journal is shared: whatever arrives meanwhile waits for it. */
const BULK_BYTES = 256 * 1024
/** While the journal is shared, bulk of a project waits this many times as long as its last write took. */
const PAUSE_FACTOR = 2

interface Waiting {
  bytes: number
  write: { projectId: string }
}

/**
 * Keeps a project that sends without pause from slowing down the others. Small writes never wait. While requests of
 * several projects arrive, the bulk of each may use a third of the journal's time, in small portions. A project that is
 * alone uses all of it.
 */
export class ProjectPace {
  readonly #clock: () => number
  #last: string | null = null
  #sharedUntil = Number.NEGATIVE_INFINITY
  /** by project: when its bulk may be written again */
  readonly #nextAt = new Map<string, number>()

  /** @param clock monotonic, ms */
  constructor(clock = () => performance.now()) {
    this.#clock = clock
  }

  /** Call it with the project of each request. */
  note(projectId: string): void {
    if (projectId === this.#last) return
    if (this.#last !== null) this.#sharedUntil = this.#clock() + SHARED_MS
    this.#last = projectId
  }

  /**
   * Takes out of a queue what the next write may have, at least one unless none may be written now.
   * @param room bytes; exceeded by the last one
   */
  take<T extends Waiting>(queue: T[], room: number): T[] {
    const now = this.#clock()
    if (now >= this.#sharedUntil) return takeFirst(queue, room)
    let left = room
    let bulkLeft = BULK_BYTES
    const paced = new Set<string>()
    for (const [projectId, at] of this.#nextAt) {
      if (at > now) paced.add(projectId)
      else this.#nextAt.delete(projectId)
    }
    const taken = new Set<T>()
    for (const one of queue) {
      if (left <= 0 && taken.size > 0) break
      if (one.bytes > SMALL_BYTES) continue
      taken.add(one)
      left -= one.bytes
    }
    for (const one of queue) {
      if ((left <= 0 && taken.size > 0) || bulkLeft <= 0) break
      const { projectId } = one.write
      if (one.bytes <= SMALL_BYTES || paced.has(projectId)) continue
      taken.add(one)
      // One for each project, so that those that wait take turns.
      paced.add(projectId)
      left -= one.bytes
      bulkLeft -= one.bytes
    }
    if (taken.size === queue.length) return queue.splice(0)
    const rest = queue.filter((one) => !taken.has(one))
    queue.splice(0, queue.length, ...rest)
    return [...taken]
  }

  /** Call it after a write. @param ms how long it took */
  noteWritten(writes: readonly Waiting[], ms: number): void {
    const now = this.#clock()
    if (now >= this.#sharedUntil) return
    for (const { bytes, write } of writes) {
      if (bytes > SMALL_BYTES) this.#nextAt.set(write.projectId, now + PAUSE_FACTOR * ms)
    }
  }

  /** In how many ms one of the writes in a queue may be taken, if none may now. */
  waitFor(queue: readonly Waiting[]): number {
    const now = this.#clock()
    let at = this.#sharedUntil
    for (const { write } of queue) at = Math.min(at, this.#nextAt.get(write.projectId) ?? now)
    return Math.max(0, at - now)
  }
}

/** Takes the first of a queue, at least one: up to `room` bytes, exceeded by the last one. */
export function takeFirst<T extends { bytes: number }>(queue: T[], room: number): T[] {
  let left = room
  let taken = 0
  while (taken < queue.length && (left > 0 || taken === 0)) left -= queue[taken++]?.bytes ?? 0
  return queue.splice(0, taken)
}
