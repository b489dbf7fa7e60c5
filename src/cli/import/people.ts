import type { Connection } from '../../client/connection.js'
import { TallyhouseError } from '../../client/errors.js'
import { MAX_BATCH } from '../../contract/limits.js'
import { TRANSFER_RETRY } from '../check-service.js'
import type { Batch, Reject } from './batches.js'

const SHOWN_ROW_CHARACTERS = 2000

/** The result of a batch's changes of profiles and aliases. */
export interface SentPeople {
  /** profile changes that were made */
  made: number
  /** rows that were not stored at all */
  rejects: Reject[]
  /** refused changes of rows whose events are stored */
  refused: Reject[]
}

type Change = Batch['people'][number] & { text: string }

/**
 * Sends changes of profiles and aliases in the order of the file. A batch's changes wait for the changes of the
 * previous batch, and fail with them. Each change has its own id, so resending one has no effect.
 */
export class People {
  readonly #connection: Connection
  readonly #signal: AbortSignal
  /** of a request's body */
  readonly #maxBytes: number
  #last: Promise<unknown> = Promise.resolve()

  constructor(connection: Connection, maxBytes: number, signal: AbortSignal) {
    this.#connection = connection
    this.#maxBytes = maxBytes
    this.#signal = signal
  }

  /**
   * @param key unique key of the batch, from which the changes get their ids
   * @throws TallyhouseError if a call fails permanently
   */
  apply(people: Batch['people'], key: string): Promise<SentPeople> {
    if (people.length === 0) return Promise.resolve({ made: 0, rejects: [], refused: [] })
    const turn = this.#last.then(() => this.#send(people, key))
    // The caller may await something else first.
    turn.catch(() => undefined)
    this.#last = turn
    return turn
  }

  async #send(people: Batch['people'], key: string): Promise<SentPeople> {
    const faults = new Map<Change, string>()
    for (const part of splitChanges(withIds(people, key), this.#maxBytes)) await this.#sendPart(part, faults)
    const all = [...faults].map(([{ line, text, hasEvent }, reason]) => {
      return { hasEvent, reject: { line, reason, row: text.slice(0, SHOWN_ROW_CHARACTERS) } }
    })
    const failed = [...faults.keys()].filter(({ kind }) => kind !== 'alias').length
    return {
      made: people.filter(({ kind }) => kind !== 'alias').length - failed,
      rejects: all.filter(({ hasEvent }) => !hasEvent).map(({ reject }) => reject),
      refused: all.filter(({ hasEvent }) => hasEvent).map(({ reject }) => reject),
    }
  }

  /**
   * Sends changes. If the service refuses the call as a whole, each half is sent separately.
   * @param faults receives the refused changes
   */
  async #sendPart(part: Change[], faults: Map<Change, string>): Promise<void> {
    const body = `{"changes":[${part.map(({ text }) => text).join(',')}]}`
    try {
      const call = { method: 'POST', path: '/public/users/batch', body } as const
      const { value } = await this.#connection.call(call, { signal: this.#signal }, TRANSFER_RETRY)
      for (const { index, message } of value.rejected as { index: number; message: string }[]) {
        const change = part[index]
        if (change) faults.set(change, message)
      }
    } catch (error) {
      const isRefused = error instanceof TallyhouseError && (error.status === 400 || error.status === 413)
      if (!isRefused) throw error
      const [only] = part
      if (part.length === 1 && only) {
        faults.set(only, error.message)
        return
      }
      const half = Math.ceil(part.length / 2)
      await this.#sendPart(part.slice(0, half), faults)
      await this.#sendPart(part.slice(half), faults)
    }
  }
}

/** Gives changes without a vendor's id an id by their position, which is the same when the import resumes. */
function withIds(people: Batch['people'], key: string): Change[] {
  let count = 0
  return people.map((change) => {
    if (change.kind !== 'change') return { ...change, text: `{${change.members}}` }
    const id = change.insertId ?? `${key}-${count}`
    count++
    return { ...change, text: `{${change.members},"insert_id":${JSON.stringify(id)}}` }
  })
}

function* splitChanges(changes: Change[], maxBytes: number): Generator<Change[]> {
  let part: Change[] = []
  let bytes = 0
  for (const change of changes) {
    const length = Buffer.byteLength(change.text) + 1
    if (part.length > 0 && (part.length === MAX_BATCH || bytes + length > maxBytes)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(change)
    bytes += length
  }
  if (part.length > 0) yield part
}
