import type { Call, Connection } from '../client/connection.js'
import { TallyhouseError } from '../client/errors.js'
import { retry } from '../client/retry.js'
import { IMPORT_RETRY } from './import/send.js'

/** Each is refused as invalid, after its key was looked at: it stores nothing, reads nothing, and a good key learns just that. */
const PROBES: Record<'send' | 'read', Call> = {
  send: { method: 'POST', path: '/public/track/batch', body: '{}' },
  read: { method: 'GET', path: '/public/events?limit=0' },
}
const ONCE = { attempts: 1, baseDelayMs: 0, maxDelayMs: 0 }

/** Of Node's and OpenSSL's errors, in words. */
const REASONS: [pattern: RegExp, words: string][] = [
  [/^ECONNREFUSED$/, 'nothing listens there'],
  [/^ENOTFOUND$/, 'its host name is not known'],
  [/^EAI_AGAIN$/, 'its host name cannot be looked up'],
  [/^(EHOSTUNREACH|ENETUNREACH)$/, 'there is no way to its host'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/, 'the connection was closed without an answer'],
  [/^(EPROTO|ERR_SSL_)/, 'no TLS is spoken there; is it http instead of https?'],
  [/^HPE_/, 'no HTTP is spoken there; is it https instead of http?'],
  [/CERT|^ERR_TLS_/, 'its TLS certificate is not accepted'],
]

/**
 * Makes sure that the service which was meant answers and takes the key, before anything is noted as sent to it. What waiting does not
 * help against is said at once, with the address; later calls of the same command are tried again whatever happens. A
 * service that answers, but cannot for the moment, is waited for.
 * @param kind what the command is about to do with the key
 * @throws Error with a sentence for the user; TallyhouseError where the service refuses for other reasons, or the signal came
 */
export async function checkService(
  connection: Connection,
  url: string,
  kind: keyof typeof PROBES,
  signal: AbortSignal,
): Promise<void> {
  const attempt = async () => {
    try {
      await connection.call(PROBES[kind], { signal }, ONCE)
    } catch (error) {
      if (!(error instanceof TallyhouseError)) throw error
      if (error.code === 'invalid_request') return
      const reason = reasonOf(error)
      throw reason === null ? error : new Error(sentence(url, error, reason), { cause: error })
    }
  }
  await retry(attempt, IMPORT_RETRY, signal)
}

/** null for what the service itself said, or the signal ended. */
function reasonOf(error: TallyhouseError): string | null {
  switch (error.code) {
    case 'network': {
      const detail = detailOf(error.cause)
      return `${REASONS.find(([pattern]) => pattern.test(detail))?.[1] ?? 'the connection failed'} (${detail})`
    }
    case 'timeout':
      return 'it does not answer'
    case 'unexpected_answer':
      return `something else answers there, with status ${error.status}`
    case 'unauthorized':
    case 'wrong_key_kind':
      return error.message
    default:
      return null
  }
}

function sentence(url: string, { code }: TallyhouseError, reason: string): string {
  if (code === 'unauthorized' || code === 'wrong_key_kind') return `The service at ${url} refuses the key. ${reason}`
  return `The service cannot be reached at ${url}: ${reason}. Is it running? Give its address by --url, or by HOST and PORT.`
}

/** The code of the connection's error, which `fetch` hangs on its own; its message where it has none. */
function detailOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ('code' in error) return String(error.code)
  return error.cause === undefined ? error.message : detailOf(error.cause)
}
