import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { parsePosition } from '../../model/position.js'
import type { StateReading, StatesMark } from '../journal.js'
import { parseState } from './encoding.js'
import { MARK_STATES, READ_STATES } from './scripts/read.js'
import { STATES_MARK } from './scripts/shared.js'

export interface RedisStatesOptions {
  prefix: string
  keys: Record<'stream' | 'meta', string>
  redis: Redis
  script(script: string, keys: string[], args: string[]): Promise<unknown>
}

/** The states of the Redis journal, each in a key of its own, and their mark. */
export class RedisStates {
  readonly #options: RedisStatesOptions
  readonly #markKey: string

  constructor(options: RedisStatesOptions) {
    this.#options = options
    this.#markKey = `${options.prefix}:state:${STATES_MARK}`
  }

  /** See the method of the same name in Journal. */
  async read(stateKeys: string[], maxBytes: number): Promise<StateReading> {
    const { prefix, keys, script } = this.#options
    const reply = await script(READ_STATES, [keys.meta], [prefix, String(maxBytes), ...stateKeys])
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
    const { keys, script } = this.#options
    const reply = await script(MARK_STATES, [keys.stream, keys.meta, this.#markKey], [String(id), layout, randomUUID()])
    const [readAt, mark = ''] = (reply as Buffer[]).map(String)
    return { readAt: Number(readAt), mark, madeAt: parsePosition(mark.slice(mark.indexOf(' ') + 1)) }
  }

  /** Removes all of them, in steps, each of which removes the mark. */
  async clear(): Promise<void> {
    const { prefix, redis } = this.#options
    for await (const keys of redis.scanStream({ match: `${prefix}:state:*`, count: 1000 })) {
      if (keys.length > 0) await redis.unlink([this.#markKey, ...keys])
    }
  }
}
