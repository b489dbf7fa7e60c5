import type { Call, Connection } from '../client/connection.js'
import { TallyhouseError } from '../client/errors.js'
import { CALL_RETRY, type RetryPolicy, retry } from '../client/retry.js'
import { replaceControls } from './columns.js'
import type { CommandIo } from './command.js'

/** About six minutes of pauses in all, enough for a restart of the service or its machine. */
export const TRANSFER_RETRY: RetryPolicy = { ...CALL_RETRY, attempts: 30, maxRetryAfterMs: 360_000 }
/** Describes the key. The call stores and reads no data. */
const PROBE: Call = { method: 'GET', path: '/public/key' }
const ONCE = { attempts: 1, baseDelayMs: 0, maxDelayMs: 0 }

/** What a command learns about the service before it begins. */
export interface CheckedService {
  /** of the key */
  project: string
  /** the time by the service's clock, epoch ms: that of this machine may be wrong */
  now: number
}

/** A difference of clocks that does no harm. Less could be the time that a response takes. */
const CLOCKS_APART_MS = 10_000

/** Plain wording for errors from Node and OpenSSL. */
const REASONS: [pattern: RegExp, words: string][] = [
  [/^ECONNREFUSED$/, 'nothing listens there'],
  [/^ENOTFOUND$/, 'its host name is unknown'],
  [/^EAI_AGAIN$/, 'its host name cannot be looked up'],
  [/^(EHOSTUNREACH|ENETUNREACH)$/, 'its host cannot be reached'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/, 'the connection was closed without a response'],
  [/^(EPROTO|ERR_SSL_)/, 'it does not speak TLS; is it http instead of https?'],
  [/^HPE_/, 'it does not speak HTTP; is it https instead of http?'],
  [/CERT|^ERR_TLS_/, 'its TLS certificate is not accepted'],
]

/**
 * Checks that the service responds and accepts the key, before anything is recorded as sent. An unreachable service is
 * reported immediately, because its address is probably wrong; later calls are retried. If the service reports that it
 * is unavailable, prints a line on `stderr` and waits for it.
 * @param kind what the command will do with the key
 * @throws Error with a sentence for the user; TallyhouseError if the service refuses for another reason, or the signal
 * aborted
 */
export async function checkService(
  connection: Connection,
  url: string,
  kind: 'send' | 'read',
  { signal, stderr }: Pick<CommandIo, 'signal' | 'stderr'>,
): Promise<CheckedService> {
  let isTold = false
  const tell = ({ message }: TallyhouseError) => {
    const said = replaceControls(message)
    if (!isTold) stderr.write(`The service at ${url} is not ready: ${said} Retrying for a few minutes.\n`)
    isTold = true
  }
  const attempt = async () => {
    try {
      const { value, headers } = await connection.call(PROBE, { signal }, ONCE)
      const key = value.key as { kind: string; project: string }
      if (kind === 'send' && key.kind === 'read') throw new Error(readKey(url))
      return { project: key.project, now: readTime(headers.get('date')) }
    } catch (error) {
      if (!(error instanceof TallyhouseError)) throw error
      if (error.code === 'not_found') throw new Error(wrongPath(url), { cause: error })
      throw findReason(error) === null ? error : new Error(callFailure(url, error), { cause: error })
    }
  }
  return await retry(attempt, TRANSFER_RETRY, signal, tell)
}

/**
 * The time of a response, unless it is about that of this machine, which is exact: a header has only seconds. Two calls
 * within a second still get different times. A proxy may have removed the header.
 */
function readTime(date: string | null): number {
  const [now, responded] = [Date.now(), Date.parse(date ?? '')]
  return Math.abs(responded - now) > CLOCKS_APART_MS ? responded + (now % 1000) : now
}

/** Prevents changing another project by mistake. @throws Error if the key, whose project is `own`, is of another one */
export function requireKeyOf(project: string, own: string): void {
  if (own !== project) throw new Error(`The key belongs to project ${own}. Use a secret key of ${project}.`)
}

function readKey(url: string): string {
  return `The service at ${url} refuses the key. It is a read key, and the command stores events: use the project's secret key.`
}

/** Message for a server that responds, but does not have the API under this URL. */
function wrongPath(url: string): string {
  return `The service responds at ${url}, but not under that path. Leave out the path: ${new URL(url).origin}.`
}

/** Explains to the user why a call to the service failed. */
export function callFailure(url: string, error: TallyhouseError): string {
  const reason = findReason(error)
  return reason === null ? error.message : sentence(url, error, reason)
}

/** @returns null if the service itself reported the error, or the signal ended the call */
function findReason(error: TallyhouseError): string | null {
  switch (error.code) {
    case 'network': {
      const detail = findDetail(error.cause)
      return `${REASONS.find(([pattern]) => pattern.test(detail))?.[1] ?? 'the connection failed'} (${detail})`
    }
    case 'timeout':
      return 'it does not respond'
    case 'unexpected_answer':
      return `something else responds there, with status ${error.status}`
    case 'unauthorized':
    case 'wrong_key_kind':
      return error.message
    default:
      return null
  }
}

function sentence(url: string, { code }: TallyhouseError, reason: string): string {
  if (code === 'unauthorized' || code === 'wrong_key_kind') return `The service at ${url} refuses the key. ${reason}`
  return `The service cannot be reached at ${url}: ${reason}. Is it running? Set its address with --url, or with HOST and PORT.`
}

/** Returns the code of the connection error inside an error of `fetch`, or its message if there is no code. */
function findDetail(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ('code' in error) return String(error.code)
  return error.cause === undefined ? error.message : findDetail(error.cause)
}
