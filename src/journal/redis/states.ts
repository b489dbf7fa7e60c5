import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { parsePosition } from '../../model/position.js'
import type { StateReading, StatesMark } from '../journal.js'
import { parseState } from './encoding.js'
import { type JournalKeys, stateKey } from './keys.js'
import type { RunScript } from './script.js'
import { MARK_STATES, READ_STATES, REMOVE_STATES } from './scripts.js'

export interface RedisStatesOptions {
  prefix: string
  keys: Pick<JournalKeys, 'mark'>
  redis: Redis
  run: RunScript
}

/** The states of the Redis journal, each in its own key, and their mark. */
export class RedisStates {
  readonly #options: RedisStatesOptions

  constructor(options: RedisStatesOptions) {
    this.#options = options
  }

  /** See the method of the same name in Journal. */
  async read(stateKeys: string[], maxBytes: number): Promise<StateReading> {
    const { prefix, run } = this.#options
    const reply = await run(READ_STATES, { prefix, bytes: String(maxBytes) }, stateKeys)
    const [readAt, mark, ...values] = reply as (Buffer | null)[]
    return {
      readAt: Number(readAt),
      mark: mark?.length ? String(mark) : null,
      states: values.map((value) => value && parseState(value)),
    }
  }

  /**
   * See the method of the same name in Journal.
   * @param id the journal's number
   * @param layout the version of the layout of this process
   */
  async mark(id: number, layout: string): Promise<StatesMark> {
    const reply = await this.#options.run(MARK_STATES, { journalId: String(id), layout, random: randomUUID() })
    const [readAt, mark = ''] = (reply as Buffer[]).map(String)
    return { readAt: Number(readAt), mark, madeAt: parsePosition(mark.slice(mark.indexOf(' ') + 1)) }
  }

  /** Removes the states whose versions are not after `last`, in steps. Each step removes the mark. */
  async clear(last: string): Promise<void> {
    const { prefix, keys, redis, run } = this.#options
    const { length } = stateKey(prefix, '')
    for await (const found of redis.scanStream({ match: stateKey(prefix, '*'), count: 1000 })) {
      const names = (found as string[]).filter((key) => key !== keys.mark).map((key) => key.slice(length))
      if (names.length > 0) await run(REMOVE_STATES, { prefix, last }, names)
    }
  }
}
