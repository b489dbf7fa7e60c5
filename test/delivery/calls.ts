import { setTimeout as wait } from 'node:timers/promises'
import { SECRET_KEY } from '../helper.js'

const CALL_LIMIT_MS = 30_000
/** An erasure needs all shards for a second, and they are killed again and again. */
export const INSIST_LIMIT_MS = 5 * 60_000
const PAUSE_MS = 20

/** Faults that a client can find, in addition to those of the event ledger. */
export type Fault = 'unread' | 'skipped' | 'miscounted' | 'rejected'

/** Counts the faults that clients found, and their checks. */
export class Findings {
  readonly faults: Record<Fault, number> = {
    /** an acknowledged write of the client that is missing from a later response */
    unread: 0,
    /** events that appeared at a place that a walk had already passed */
    skipped: 0,
    /** a profile or session that does not match its calls */
    miscounted: 0,
    /** a call that was refused permanently, or failed with a 500 */
    rejected: 0,
  }
  readonly examples: string[] = []
  readonly counts = {
    reads: 0,
    answers: 0,
    pages: 0,
    edits: 0,
    deletions: 0,
    erasures: 0,
    profileChanges: 0,
    sessions: 0,
  }

  blame(fault: Fault, what: string): void {
    this.faults[fault]++
    if (this.examples.length < 20) this.examples.push(`${fault}: ${what}`)
  }
}

export const FAULTLESS = new Findings().faults

export interface Reply {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: the body of any call
  body: any
  text: string
}

export interface Call {
  method?: string
  path: string
  body?: object
  idempotencyKey?: string
  /** default: the secret one */
  apiKey?: string
}

/** Makes one call. @returns null if there was no response */
export async function call(
  url: string,
  { method = 'GET', path, body, idempotencyKey, apiKey = SECRET_KEY }: Call,
): Promise<Reply | null> {
  try {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        'x-api-key': apiKey,
        ...(body && { 'content-type': 'application/json' }),
        ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
      },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(CALL_LIMIT_MS),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text), text }
  } catch {
    return null
  }
}

/** Repeats a call until the response is not "try again". @returns the response and the number of attempts */
export async function insist(
  url: () => string,
  what: Call,
  findings: Findings,
): Promise<{ reply: Reply; tries: number }> {
  const deadline = Date.now() + INSIST_LIMIT_MS
  const failures = new Map<string, number>()
  for (let tries = 1; ; tries++) {
    const reply = await call(url(), what)
    if (reply?.status === 500) findings.blame('rejected', `${what.method ?? 'GET'} ${what.path}: ${reply.text}`)
    if (reply && reply.status < 500) return { reply, tries }
    const why = reply?.text ?? 'no response'
    failures.set(why, (failures.get(why) ?? 0) + 1)
    if (Date.now() > deadline) {
      const all = [...failures].map(([why, times]) => `${times} × ${why}`).join(', ')
      throw new Error(`${what.method ?? 'GET'} ${what.path} failed ${tries} times: ${all}`)
    }
    await wait(PAUSE_MS)
  }
}
