import type { FastifyReply, FastifyRequest, preParsingHookHandler, preValidationAsyncHookHandler } from 'fastify'
import { ApiError } from '../contract/errors.js'
import type { KeyRing } from '../keys/key-ring.js'
import type { KeyKind, StoredKey } from '../keys/keys.js'
import { clientAddress } from './client-address.js'
import type { WrongKeys } from './wrong-keys.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** the project of the request's key; empty until the key is known */
    projectId: string
    /** the id of the request's key, as the log and the list of keys show it */
    keyId: string
    /** the request's key; absent until it has been verified */
    key: string
  }
}

const REFUSED: Record<KeyKind, string> = {
  secret: 'This call needs the secret key of the project; the key that came is the public one.',
  public:
    'This call needs the public key of the project; the key that came is the secret one, which must never be in a browser.',
}

const CONTINUE = /(?:^|\W)100-continue(?:$|\W)/i

/** Admits requests that have a key of the wanted kind. */
export class Authentication {
  readonly #keys: KeyRing
  readonly #kind: KeyKind
  readonly #wrongKeys: WrongKeys

  constructor(keys: KeyRing, kind: KeyKind, wrongKeys: WrongKeys) {
    this.#keys = keys
    this.#kind = kind
    this.#wrongKeys = wrongKeys
  }

  /**
   * Checks the header before any of the body is read or inflated, and refuses a request with an
   * unknown key there. A key of the wrong kind is refused only after the body has been read, as
   * the body may hold another key.
   */
  readonly beforeBody: preParsingHookHandler = (request, reply, payload, done) => {
    request.rawResponse = reply.raw
    const header = request.headers['x-api-key']
    const grant = typeof header === 'string' ? this.#keys.find(header) : null
    const proceed = (grant: StoredKey | null) => {
      if (grant) identify(request, grant)
      if (grant?.kind === this.#kind) request.key = header as string
      // A client that waits for 100 Continue need not send a body that would be refused. Without
      // it, Node closes the connection.
      if (request.headers.expect !== undefined && CONTINUE.test(request.headers.expect)) reply.raw.writeContinue()
      done(null, payload)
    }
    if (typeof header !== 'string' || grant) proceed(grant)
    else this.#find(header, request, reply).then(proceed, done)
  }

  /** Runs before anything else of the request is checked. */
  readonly afterBody: preValidationAsyncHookHandler = async (request, reply) => {
    const inBody = bodyKey(request.body)
    if (request.key) {
      if (inBody !== undefined && inBody !== request.key) throw differing()
      return
    }
    const header = request.headers['x-api-key']
    if (header === undefined && inBody === undefined) {
      const message = 'A key is missing: send it as the field apiKey or as the header x-api-key.'
      throw new ApiError('unauthorized', message)
    }
    if (header !== undefined && inBody !== undefined && header !== inBody) throw differing()
    const key = inBody ?? header
    if (typeof key !== 'string') throw new ApiError('unauthorized', 'The key must be a string.')
    const grant = this.#keys.find(key) ?? (await this.#find(key, request, reply))
    identify(request, grant)
    if (grant.kind !== this.#kind) throw new ApiError('wrong_key_kind', REFUSED[this.#kind])
    // The key became known only after the body was discarded, so the client has to retry.
    if (request.body instanceof UnreadBody) throw unreadable()
    request.key = key
  }

  /**
   * The project of the key in a body; null unless that key is known and will admit the request.
   */
  projectOf({ headers }: FastifyRequest, keyInBody: unknown): string | null {
    // A header key of the right kind would have settled it: this one is of the wrong kind.
    if (headers['x-api-key'] !== undefined || typeof keyInBody !== 'string') return null
    const grant = this.#keys.find(keyInBody)
    return grant?.kind === this.#kind ? grant.projectId : null
  }

  /** As `projectOf`, but looks for keys that were created since the last refresh, too. */
  async projectOfNew(request: FastifyRequest, keyInBody: unknown): Promise<string | null> {
    const isUnknown = typeof keyInBody === 'string' && !this.#keys.find(keyInBody)
    if (isUnknown) await this.#keys.findNew(keyInBody)
    return this.projectOf(request, keyInBody)
  }

  /**
   * @throws ApiError `unauthorized`, or `rate_limited` if the address has sent too many wrong keys
   */
  async #find(key: string, request: FastifyRequest, reply: FastifyReply): Promise<StoredKey> {
    const grant = await this.#keys.findNew(key)
    if (grant) return grant
    if (!this.#keys.isComplete) throw unreadable()
    this.#wrongKeys.count(clientAddress(request), reply)
    throw new ApiError('unauthorized', 'The key is not known. Check the key and its project.')
  }
}

/** Stands for a body that was not parsed, as its key is unknown. */
export class UnreadBody {
  readonly apiKey: unknown

  constructor(apiKey: unknown) {
    this.apiKey = apiKey
  }
}

function unreadable(): ApiError {
  return new ApiError('unavailable', 'The keys cannot be read at the moment. Try again in a moment.')
}

/** Notes whose request it is, for the log even if the key is of the wrong kind. */
function identify(request: FastifyRequest, { id, projectId }: StoredKey): void {
  request.keyId = id
  request.projectId = projectId
}

function bodyKey(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || !('apiKey' in body)) return undefined
  return body.apiKey ?? undefined
}

function differing(): ApiError {
  return new ApiError('unauthorized', 'The keys in the header x-api-key and in the field apiKey differ.')
}
