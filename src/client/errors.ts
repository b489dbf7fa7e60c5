import type { ErrorCode, ErrorDetail } from '../contract/errors.js'

/**
 * What went wrong without the service saying so:
 * - `network`: it cannot be reached, or the connection broke; `cause` says how
 * - `timeout`: it did not answer in time
 * - `aborted`: the caller's signal; `cause` is the failure that was being retried, else the signal's reason
 * - `unexpected_answer`: something else than Tallyhouse answered
 * - `queue_full`: the event found no room in the queue
 * - `closed`: the client was closed
 * - `incomplete`: an export could not give all events that were accepted
 */
export type ClientErrorCode =
  | 'network'
  | 'timeout'
  | 'aborted'
  | 'unexpected_answer'
  | 'queue_full'
  | 'closed'
  | 'incomplete'

/** What is known besides the code and the message. */
export interface ErrorContext {
  status?: number
  details?: ErrorDetail[]
  requestId?: string | null
  retryAfterMs?: number | null
  cause?: unknown
}

/** Every error of the clients. */
export class TallyhouseError extends Error {
  override readonly name = 'TallyhouseError'
  /** a word of the service or of the client; a later service may know further ones */
  readonly code: ErrorCode | ClientErrorCode | (string & {})
  /** the HTTP status, or null where no answer came */
  readonly status: number | null
  /** the fields at fault, where fields are */
  readonly details: ErrorDetail[]
  /** the answer's `x-request-id`, if it had one */
  readonly requestId: string | null
  /** what the answer's `Retry-After` asks for */
  readonly retryAfterMs: number | null

  /** @param message a sentence for a person; it never holds a key */
  constructor(code: TallyhouseError['code'], message: string, context: ErrorContext = {}) {
    super(message, 'cause' in context ? { cause: context.cause } : undefined)
    this.code = code
    this.status = context.status ?? null
    this.details = context.details ?? []
    this.requestId = context.requestId ?? null
    this.retryAfterMs = context.retryAfterMs ?? null
  }
}
