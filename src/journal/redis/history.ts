import { randomInt } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { formatPosition, laterOf, type Position, parsePosition, START } from '../../model/position.js'
import { unavailable } from './errors.js'
import { INITIALISE, LOOK } from './scripts/history.js'

export interface RedisHistoryOptions {
  meta: string
  stream: string
  script(script: string, keys: string[], args: string[]): Promise<unknown>
  /** as RedisJournalOptions has it */
  lastStored: ((from: Position) => Promise<Position>) | undefined
  log: { warn(data: object, message: string): void }
}

/**
 * How far ahead of its clock a Redis begins to give out positions where it is not the one that gave out the last ones: so
 * much may the clock of a replica be behind its master's. It is as long as a master goes on by itself that has lost its
 * replicas, by Redis' own default of min-replicas-max-lag.
 */
const CLOCK_TOLERANCE_MS = 10_000
/** How long the store is asked how far the positions went. */
const LAST_STORED_WAIT_MS = 1_000

/**
 * What this process knows of the journal's past, by which a Redis that lost the end of it, as a replica that lagged
 * behind its master, is kept from giving out a position again.
 */
export class RedisHistory {
  /** the journal's number; 0 before it is known */
  id = 0
  /** another number each time that the past may have changed */
  era = 0
  /** as Redis names the run of its data: another one where a replica became the master, and after a restart */
  #name = ''
  /** the greatest position that this process has seen. It is of this very journal, so no clock makes it too great */
  #floor = START
  readonly #options: RedisHistoryOptions

  constructor(options: RedisHistoryOptions) {
    this.#options = options
  }

  note(position: Position): void {
    this.#floor = laterOf(this.#floor, position)
  }

  /** The arguments of WRITE by which Redis tells whether it may write, and behind which position. */
  get arguments(): [history: string, ms: string, sequence: string] {
    const [ms = '', sequence = ''] = formatPosition(this.#floor).split('-')
    return [this.#name, ms, sequence]
  }

  /** @param name as INFO has it */
  isAnother(name: string | undefined): boolean {
    return this.#name !== '' && name !== undefined && name !== this.#name
  }

  /**
   * Makes the journal where there is none, and has a Redis that did not give out the last positions go on behind all that
   * are known. Until that is done, WRITE refuses the writes of every process there.
   * @throws ContractError `unavailable` where another journal is there
   */
  async goOn(): Promise<void> {
    const { meta, stream, script } = this.#options
    // From here on nobody relies on what was in the journal before.
    this.era++
    const answer = (await script(LOOK, [meta], [])) as Buffer[]
    const [known = '', written, name = '', stored = ''] = answer.map(String)
    // Ids that were given out name the journal that this process began with.
    if (this.id !== 0 && known !== '' && Number(known) !== this.id) throw anotherJournal()
    const isFirst = known === '' && this.id === 0
    let id = Number(known)
    if (known === '' || (name !== '' && name !== written)) {
      if (!isFirst) await this.#askStore(stored === '' ? START : parsePosition(stored))
      const toleranceMs = isFirst ? 0 : CLOCK_TOLERANCE_MS
      const [, ms, sequence] = this.arguments
      const number = String(this.id || randomInt(1, 2 ** 32))
      id = Number(await script(INITIALISE, [meta, stream], [number, name, String(toleranceMs), ms, sequence]))
      if (this.id !== 0 && id !== this.id) throw anotherJournal()
    }
    this.id = id
    this.#name = name
  }

  /** Also where the store does not answer, events have to be taken: then clocks that agree are all that is relied on. */
  async #askStore(from: Position): Promise<void> {
    const { lastStored, log } = this.#options
    if (!lastStored) return
    const timeout = wait(LAST_STORED_WAIT_MS, undefined, { ref: false }).then(() => {
      throw new Error(`no answer within ${LAST_STORED_WAIT_MS} ms`)
    })
    try {
      this.note(await Promise.race([lastStored(from), timeout]))
    } catch (error) {
      log.warn({ err: error }, 'the store did not say how far the positions went before Redis started or changed')
    }
  }
}

function anotherJournal(): Error {
  return unavailable(new Error('another journal is in Redis now; restart'))
}
