import type { ClickHouse } from '../clickhouse/client.js'
import { STILL_LEADS, TAKING_LEAD } from './fact-points.js'
import { deduplicateBy } from './insert.js'

/** The state of a shard's facts, as in a row of `facts_state`. */
interface State {
  version: number
  epoch: number
  /** number of the last step that was begun */
  begun: number
  /** facts of earlier generations no longer count */
  generation: number
  /** the version of ClickHouse and the table that facts were written to */
  engine: string
}

/** The latest state in the store. */
interface LastState extends Omit<State, 'version'> {
  /** the process that wrote it */
  process: string
  /** whether that process still leads */
  isLeading: boolean
  /** time since then by the server's clock, ms */
  silentMs: number
}

/** The state of a store in which no process has led yet. */
const NOBODY = { epoch: 0, begun: 0, generation: 1, engine: '' }
/** A leader that has not written for this long counts as gone, ms. */
const SILENT_MS = 10_000
/** `is_leading` of a process that has released the lead, and of one that leads; see TAKING_LEAD as well. */
const RELEASED = 0
const LEADING = 1
/** Versions are ordered by epoch, so a late write of an earlier leader is not the latest state. */
const VERSIONS_OF_EPOCH = 2 ** 32

/**
 * The state of a shard's facts in the epoch of one leader. A write has no effect once another process has begun the next
 * epoch.
 */
export class LeadState {
  /** whether this process also led before */
  readonly isContinued: boolean
  readonly #clickhouse: ClickHouse
  readonly #process: string
  readonly #state: State
  #leading = TAKING_LEAD

  private constructor(clickhouse: ClickHouse, process: string, last: LastState | null) {
    const { epoch, begun, generation, engine } = last ?? NOBODY
    this.isContinued = last?.process === process
    this.#clickhouse = clickhouse
    this.#process = process
    this.#state = { version: 0, epoch, begun, generation, engine }
    this.#beginEpoch()
  }

  #beginEpoch(): void {
    this.#state.epoch++
    this.#state.version = this.#state.epoch * VERSIONS_OF_EPOCH
  }

  /**
   * Begins the next epoch.
   * @param isShared whether other processes may lead
   * @returns null if another process leads
   */
  static async claim(clickhouse: ClickHouse, process: string, isShared: boolean): Promise<LeadState | null> {
    const last = await readLast(clickhouse)
    // If the clock was set back, the last row of a dead leader seems to be from the future.
    const isTaken = last?.isLeading && last.process !== process && Math.abs(last.silentMs) < SILENT_MS
    if (isShared && isTaken) return null
    const state = new LeadState(clickhouse, process, last)
    return (await state.#claim()) ? state : null
  }

  get current(): Readonly<State> {
    return this.#state
  }

  async #claim(): Promise<boolean> {
    for (;;) {
      // The token only stops two processes that claim the epoch at the same time.
      const insert = this.#insert(TAKING_LEAD, '(SELECT max(epoch) FROM facts_state) < {epoch:UInt32}')
      const { epoch } = this.#state
      await this.#clickhouse.command(insert.query, insert.parameters, deduplicateBy(`epoch ${epoch}`))
      const [row] = await this.#clickhouse.rows<{ latest: number; own: number }>(
        'SELECT max(epoch) AS latest, maxIf(epoch, leader = {process:UUID}) AS own FROM facts_state',
        { process: this.#process },
      )
      const latest = row?.latest ?? 0
      if (latest >= epoch) return latest === epoch && row?.own === epoch
      // ClickHouse has lost the rows of this epoch, but not its token.
      this.#beginEpoch()
    }
  }

  /**
   * Notes what the previous leader has finished since this one claimed the lead, and avoids numbers whose state
   * ClickHouse has lost although it still has the progress.
   */
  async catchUp(): Promise<void> {
    const [row] = await this.#clickhouse.rows<{ step: number; generation: number }>(
      'SELECT max(step) AS step, max(generation) AS generation FROM facts_progress',
    )
    const { step = 0, generation = 0 } = row ?? {}
    this.#state.begun = Math.max(this.#state.begun, step)
    // It is unknown which version wrote the facts, so they are rebuilt.
    if (generation > this.#state.generation) Object.assign(this.#state, { generation, engine: '' })
  }

  /** Ends the takeover: the unfinished step of the previous leader is removed. */
  async confirm(): Promise<void> {
    this.#leading = LEADING
    await this.#write({})
  }

  /** Begins the next step. @returns its number */
  async beginStep(): Promise<number> {
    await this.#write({ begun: this.#state.begun + 1 })
    return this.#state.begun
  }

  /** Begins the next generation. @param engine the new value of `engine` */
  async beginGeneration(engine: string): Promise<void> {
    await this.#write({ engine, generation: this.#state.generation + 1 })
  }

  /** Records that this process still leads. */
  async beat(): Promise<void> {
    await this.#write({})
  }

  /** Lets another process lead immediately. */
  async release(): Promise<void> {
    await this.#write({}, RELEASED)
  }

  /** Whether no other process has begun an epoch. */
  async stillLeads(): Promise<boolean> {
    const [row] = await this.#clickhouse.rows<{ epoch: number }>('SELECT max(epoch) AS epoch FROM facts_state')
    return row?.epoch === this.#state.epoch
  }

  async #write(changes: Partial<State>, leading = this.#leading): Promise<void> {
    Object.assign(this.#state, changes)
    const { query, parameters } = this.#insert(leading, STILL_LEADS)
    await this.#clickhouse.command(query, parameters)
  }

  #insert(leading: number, condition: string) {
    this.#state.version++
    const query = `INSERT INTO facts_state (version, epoch, leader, is_leading, begun, generation, engine)
      SELECT {version:UInt64}, {epoch:UInt32}, {process:UUID}, ${leading}, {begun:UInt32}, {generation:UInt32},
        {engine:String}
      WHERE ${condition}`
    return { query, parameters: { ...this.#state, process: this.#process } }
  }
}

/** @returns null if no process has ever led */
async function readLast(clickhouse: ClickHouse): Promise<LastState | null> {
  const [row] = await clickhouse.rows<
    Record<'epoch' | 'begun' | 'generation' | 'engine' | 'process' | 'silent', string> & { leading: number }
  >(
    `SELECT epoch, begun, generation, engine, toString(leader) AS process, is_leading AS leading,
       date_diff('millisecond', written_at, now64(3)) AS silent
     FROM facts_state ORDER BY version DESC LIMIT 1`,
  )
  if (!row) return null
  const { epoch, begun, generation, engine, process, leading, silent } = row
  return {
    process,
    epoch: Number(epoch),
    begun: Number(begun),
    generation: Number(generation),
    engine,
    isLeading: leading !== RELEASED,
    silentMs: Number(silent),
  }
}
