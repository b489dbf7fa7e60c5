import type { Connection } from '../../client/connection.js'
import { TallyhouseError } from '../../client/errors.js'
import { members } from '../../json/spans.js'
import { objectText } from '../../vendors/row.js'
import type { Batch, Reject } from './batches.js'
import { IMPORT_RETRY } from './send.js'

/** Users whose profiles are changed at a time. */
const PARALLEL = 8

interface User {
  distinct_id: string
  /** name → text of the last value */
  set: Map<string, string>
  lines: number[]
}

/** Changes profiles in the order of the file: the changes of a batch wait for those of the previous one, and fail with it. */
export class ProfileChanges {
  readonly #connection: Connection
  readonly #signal: AbortSignal
  #last: Promise<unknown> = Promise.resolve()

  constructor(connection: Connection, signal: AbortSignal) {
    this.#connection = connection
    this.#signal = signal
  }

  /** Calls `sendProfiles` after the earlier changes. */
  apply(changes: Batch['profiles'], key: string): Promise<Reject[]> {
    if (changes.length === 0) return Promise.resolve([])
    const turn = this.#last.then(() => sendProfiles(this.#connection, changes, key, this.#signal))
    // The caller may await something else first.
    turn.catch(() => undefined)
    this.#last = turn
    return turn
  }
}

/**
 * Sets the properties of users, with one call per user. Each call has an idempotency key of its own, so a retry of the
 * batch changes nothing.
 * @returns the rows whose changes the service refuses
 * @throws TallyhouseError if a call fails for good
 */
async function sendProfiles(
  connection: Connection,
  changes: Batch['profiles'],
  key: string,
  signal: AbortSignal,
): Promise<Reject[]> {
  const users = [...byUser(changes).values()].entries()
  const rejects: Reject[] = []
  const work = async () => {
    for (const [index, user] of users) rejects.push(...(await send(connection, user, `${key}-${index}`, signal)))
  }
  await Promise.all(Array.from({ length: PARALLEL }, work))
  return rejects
}

function byUser(changes: Batch['profiles']): Map<string, User> {
  const users = new Map<string, User>()
  for (const { distinct_id, set, line } of changes) {
    const user: User = users.get(distinct_id) ?? { distinct_id, set: new Map(), lines: [] }
    users.set(distinct_id, user)
    user.lines.push(line)
    for (const { name, start, end } of members(set)) user.set.set(name, set.slice(start, end))
  }
  return users
}

async function send(connection: Connection, user: User, key: string, signal: AbortSignal): Promise<Reject[]> {
  const set = objectText([...user.set])
  const body = `{"distinct_id":${JSON.stringify(user.distinct_id)},"operations":{"$set":${set}}}`
  try {
    const call = { method: 'POST', path: '/public/users/profile', body, idempotencyKey: key } as const
    await connection.call(call, { signal }, IMPORT_RETRY)
    return []
  } catch (error) {
    const isRefused = error instanceof TallyhouseError && (error.status === 400 || error.status === 413)
    if (!isRefused) throw error
    return user.lines.map((line) => ({ line, reason: error.message, row: body.slice(0, 2000) }))
  }
}
