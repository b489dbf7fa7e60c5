import type { ErrorCode, ErrorDetail } from '../contract/errors.js'

/**
 * Errors that the client itself detects:
 * - `network`: the service is unavailable, or the connection broke; `cause` says how
 * - `timeout`: no response came in time
 * - `aborted`: by the caller's signal; `cause` is the failure that was being retried, or the signal's reason
 * - `unexpected_answer`: the response does not come from Tallyhouse
 * - `queue_full`: there was no room for the event in the queue
 * - `closed`: the client was closed
 * - `incomplete`: an export could not deliver all accepted events
 */
export type ClientErrorCode =
  | 'network'
  | 'timeout'
  | 'aborted'
  | 'unexpected_answer'
  | 'queue_full'
  | 'closed'
  | 'incomplete'

/** Details of an error, in addition to the code and the message. */
export interface ErrorContext {
  status?: number
  details?: ErrorDetail[]
  requestId?: string | null
  retryAfterMs?: number | null
  cause?: unknown
}

/** Every error that the client throws, except a TypeError of a constructor. */
export class TallyhouseError extends Error {
  override readonly name = 'TallyhouseError'
  /** a code of the service or of the client; later versions of the service may add others */
  readonly code: ErrorCode | ClientErrorCode | (string & {})
  /** the HTTP status, or null if no response came */
  readonly status: number | null
  /** the fields at fault; may be empty */
  readonly details: ErrorDetail[]
  /** `x-request-id` of the response, if it had one */
  readonly requestId: string | null
  /** `Retry-After` of the response, in milliseconds */
  readonly retryAfterMs: number | null

  /** @param message a sentence for a person; never contains a key */
  constructor(code: TallyhouseError['code'], message: string, context: ErrorContext = {}) {
    super(message, 'cause' in context ? { cause: context.cause } : undefined)
    this.code = code
    this.status = context.status ?? null
    this.details = context.details ?? []
    this.requestId = context.requestId ?? null
    this.retryAfterMs = context.retryAfterMs ?? null
  }
}
