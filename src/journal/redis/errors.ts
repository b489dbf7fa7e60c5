import { ReplyError } from 'ioredis'
import { ApiError } from '../../contract/errors.js'
import { LayoutError, parseGuard } from '../layout.js'
import { journalFull } from '../shares.js'
import { isDatabaseRefused } from './open.js'

/** Error replies that say that nothing was written because Redis or the journal is full. */
const FULL = /^(FULL|OOM)\b/
const UNAVAILABLE =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|MOVED|ASK|MISCONF|NOREPLICAS|TRYAGAIN|BUSY|NOAUTH|WRONGPASS|NOPERM)\b/

/** Whether Redis replied with this error. After any other failure it is unknown what Redis did. */
export function isReply(error: unknown): error is Error {
  return error instanceof ReplyError
}

/** The ApiError for a command that Redis refused; null if the command may have been executed. */
export function asRefusal(error: unknown): ApiError | null {
  if (error instanceof ApiError) return error
  if (!isReply(error)) return null
  if (error.message.startsWith('LAYOUT ')) return new LayoutError(parseGuard(error.message.slice('LAYOUT '.length)))
  if (FULL.test(error.message)) return journalFull(error)
  if (!UNAVAILABLE.test(error.message)) return null
  return new ApiError('unavailable', 'The journal cannot be written now. Try again in a moment.', { cause: error })
}

/** Redis refuses the user or the password. Only an operator can fix that. */
const LOGIN_REFUSAL = /^(WRONGPASS|NOAUTH)\b/
/** The user lacks rights. */
const RIGHTS_REFUSAL = /^NOPERM\b/

/** Explains a refused login, right or database, also if it is the cause of another error; null for any other failure. */
export function refusedAccess(error: unknown): Error | null {
  if (isReply(error) && LOGIN_REFUSAL.test(error.message)) {
    return new Error(`Redis refuses the login of REDIS_URL: "${error.message}". Correct its user and password.`)
  }
  if (isReply(error) && RIGHTS_REFUSAL.test(error.message)) {
    return new Error(
      `The user of REDIS_URL lacks rights: "${error.message}". Give it all keys, channels and commands: ACL SETUSER name ~* &* +@all.`,
    )
  }
  if (isReply(error) && isDatabaseRefused(error)) {
    return new Error(
      `Redis refuses the database of REDIS_URL: "${error.message}". Use a database that exists, or leave it out.`,
    )
  }
  return error instanceof Error && error.cause !== undefined ? refusedAccess(error.cause) : null
}

/** Says what an operator has to do about a Redis that could not be opened. */
export function describeFailedOpen(error: unknown): Error {
  return refusedAccess(error) ?? new Error('Redis cannot be reached or used. Check REDIS_URL.', { cause: error })
}

/** Whether the journal was deleted from Redis or replaced by another one, or this Redis has not adopted it yet. */
export function isGone(error: unknown): boolean {
  return isReply(error) && /^(GONE|HISTORY)\b/.test(error.message)
}

/** Whether a body that WRITE refers to is missing, so that nothing was written. */
export function isLost(error: unknown): boolean {
  return isReply(error) && error.message.startsWith('LOST')
}

/** Whether WRITE returned this error after checking that the call had not been executed before. */
export function isFromScript(error: unknown): boolean {
  return isReply(error) && /^(FULL|OOM|LAYOUT)\b/.test(error.message)
}

export function unavailable(cause: unknown): ApiError {
  return new ApiError('unavailable', 'The journal cannot be reached. Try again in a moment.', { cause })
}
