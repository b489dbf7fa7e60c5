/** How long after requests of different projects the journal counts as shared, ms. */
const SHARED_MS = 1_000
/** A larger write is bulk. */
const SMALL_BYTES = 16 * 1024
/**
 * Bulk bytes in one write while the journal is shared. They are limited because requests that arrive during a write
 * wait for it.
 */
const BULK_BYTES = 256 * 1024
/**
 * A project with more bulk bytes than this in one write has to pause; one that sends an occasional batch never does.
 */
const PAUSE_BYTES = BULK_BYTES / 2
/** How long it pauses, as a multiple of the time that the write took. */
const PAUSE_FACTOR = 2
/** Limit of a pause, ms: a journal that hung for seconds is not the project's fault. */
const MAX_PAUSE_MS = 200

interface Waiting {
  bytes: number
  write: { projectId: string }
}

/**
 * Keeps a project that sends bulk without pause from slowing down the others. While requests of several projects
 * arrive, each write of the journal has all small writes, in order, and a portion of the bulk, for which the projects
 * take turns. A project that fills a portion then lets two writes of the same length pass. A project on its own gets
 * the whole journal.
 *
 * Not covered: a project that floods the journal with small writes.
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
   * Takes the writes for the next journal write out of a queue: at least one, unless none may be written now.
   * @param room bytes; the last one may exceed it
   */
  take<T extends Waiting>(queue: T[], room: number): T[] {
    if (this.#clock() >= this.#sharedUntil) return takeFirst(queue, room)
    const small = queue.filter(({ bytes }) => bytes <= SMALL_BYTES)
    const taken = new Set([...(small.length > 0 ? takeFirst(small, room) : []), ...this.#takeBulk(queue)])
    let left = 0
    for (const one of queue) if (!taken.has(one)) queue[left++] = one
    queue.length = left
    return [...taken]
  }

  /**
   * A portion of the bulk in a queue, or a single write that exceeds it. The projects take turns, oldest write first.
   */
  #takeBulk<T extends Waiting>(queue: readonly T[]): T[] {
    const now = this.#clock()
    for (const [projectId, at] of this.#nextAt) if (at <= now) this.#nextAt.delete(projectId)
    const waiting = new Map<string, T[]>()
    for (const one of queue) {
      const { projectId } = one.write
      if (one.bytes <= SMALL_BYTES || this.#nextAt.has(projectId)) continue
      const ofProject = waiting.get(projectId)
      if (ofProject) ofProject.push(one)
      else waiting.set(projectId, [one])
    }
    const taken: T[] = []
    let left = BULK_BYTES
    for (let turn = 0; waiting.size > 0; turn++) {
      for (const [projectId, writes] of waiting) {
        const one = writes[turn]
        if (!one) {
          waiting.delete(projectId)
          continue
        }
        if (one.bytes > left && taken.length > 0) return taken
        taken.push(one)
        left -= one.bytes
      }
    }
    return taken
  }

  /** Call it after a successful write. @param ms how long it took */
  noteWritten(writes: readonly Waiting[], ms: number): void {
    const now = this.#clock()
    if (now >= this.#sharedUntil) return
    const bulk = new Map<string, number>()
    for (const { bytes, write } of writes) {
      if (bytes > SMALL_BYTES) bulk.set(write.projectId, (bulk.get(write.projectId) ?? 0) + bytes)
    }
    const pauseMs = Math.min(PAUSE_FACTOR * ms, MAX_PAUSE_MS)
    for (const [projectId, bytes] of bulk) if (bytes > PAUSE_BYTES) this.#nextAt.set(projectId, now + pauseMs)
  }

  /** How long until one of the writes in a queue may be taken, ms. Call this if none may be taken now. */
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
