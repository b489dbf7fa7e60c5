/** The errors of the contract: the code that a program reads, and its HTTP status. */
export const ERROR_STATUS = {
  invalid_json: 400,
  invalid_request: 400,
  too_many_events: 400,
  not_numeric: 400,
  not_array: 400,
  too_old: 400,
  unauthorized: 401,
  wrong_key_kind: 403,
  invalid_csrf_token: 403,
  quota_locked: 403,
  not_found: 404,
  session_ended: 409,
  session_owner_mismatch: 409,
  idempotency_conflict: 409,
  alias_conflict: 409,
  revision_conflict: 409,
  key_conflict: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  query_too_large: 422,
  rate_limited: 429,
  quota_exceeded: 429,
  internal: 500,
  store_damaged: 500,
  overloaded: 503,
  unavailable: 503,
} as const

export type ErrorCode = keyof typeof ERROR_STATUS

/** The limits whose refusals are counted for each caller. */
export type LimitName =
  | 'requests'
  | 'wrong_keys'
  | 'work'
  | 'new_users'
  | 'live_streams'
  | 'body_memory'
  | 'reads'
  | 'questions'
  | 'journal'
  | 'idempotency_keys'
  | 'saved'
  | 'quota'

/** A field at fault: a JSON pointer into the request, and what is wrong there. */
export interface ErrorDetail {
  path: string
  message: string
}

/** An error whose message is sent to the caller. Any other error becomes a 500 without its message. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly details: ErrorDetail[] | undefined
  /** seconds after which a retry makes sense, if known */
  readonly retryAfter: number | undefined
  /** the limit that refused the call, for the metrics and Health; never sent */
  readonly limit: LimitName | undefined
  /** what that limit allows, for the header `ratelimit-limit`, if it refills over time */
  readonly allowance: number | undefined

  /**
   * @param message a sentence that tells a person what to do; never contains a key, SQL or a path
   * of the server
   * @param more `details` for the caller; `cause` for the log only; `retryAfter` in seconds;
   * `limit` if one was met, and its `allowance`
   */
  constructor(
    code: ErrorCode,
    message: string,
    more: {
      details?: ErrorDetail[] | undefined
      cause?: unknown
      retryAfter?: number | undefined
      limit?: LimitName | undefined
      allowance?: number | undefined
    } = {},
  ) {
    super(message, 'cause' in more ? { cause: more.cause } : undefined)
    this.code = code
    this.details = more.details
    this.retryAfter = more.retryAfter
    this.limit = more.limit
    this.allowance = more.allowance
  }

  get status(): number {
    return ERROR_STATUS[this.code]
  }

  /** The same error with another message. */
  withMessage(message: string): ApiError {
    const { code, details, retryAfter, limit, allowance } = this
    return new ApiError(code, message, { details, retryAfter, limit, allowance, cause: this })
  }
}

/** @param details invalid fields, at least one; the message quotes the first */
export function invalidFields(
  details: ErrorDetail[],
  code: 'invalid_request' | 'invalid_json' = 'invalid_request',
): ApiError {
  const { path, message } = details[0] ?? { path: '', message: 'is not valid' }
  return new ApiError(code, `${path || 'The body'} ${message}.`, { details })
}

/** @param message a predicate: it follows the path in a sentence */
export function invalidField(path: string, message: string): ApiError {
  return invalidFields([{ path, message }])
}

/**
 * @param reason a sentence that names the limit
 * @param ms until the limit is lifted
 * @param allowance what the limit allows
 */
export function rateLimited(limit: LimitName, reason: string, ms: number, allowance: number): ApiError {
  const retryAfter = Math.ceil(ms / 1000)
  return new ApiError('rate_limited', `${reason} Try again in ${retryAfter} s.`, { limit, retryAfter, allowance })
}

/** @param ms until some of the project's keys expire */
export function tooManyRequestKeys(ms: number): ApiError {
  return new ApiError(
    'rate_limited',
    'This project has reached its limit of remembered Idempotency-Keys. Send this without one, or try again later.',
    { retryAfter: Math.ceil(ms / 1000), limit: 'idempotency_keys' },
  )
}

export function idempotencyConflict(): ApiError {
  return new ApiError(
    'idempotency_conflict',
    'This Idempotency-Key was used with another body. Use a new key for a new request.',
  )
}

/** Stored data that only another version of Tallyhouse can read. Retrying does not help; the message says what does. */
export class OtherVersionError extends Error {
  override readonly name = 'OtherVersionError'

  /**
   * @param what names the data, as the subject of a sentence
   * @param isNewer whether it is known that the other version is a later one
   */
  constructor(what: string, isNewer = false) {
    super(
      isNewer
        ? `${what} was made by a newer version of Tallyhouse. Start that version or a later one. To go back to this one, ` +
            'restore the backup from before the upgrade.'
        : `${what} was made by another version of Tallyhouse. Run \`tallyhouse export --all FOLDER\` with that version, ` +
            'then `tallyhouse import --all FOLDER` with this one into an empty store and journal.',
    )
  }
}
