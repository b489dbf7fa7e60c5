import type { FastifyReply, FastifyRequest, preParsingHookHandler, preValidationAsyncHookHandler } from 'fastify'
import { ApiError } from '../contract/errors.js'
import type { KeyRing } from '../keys/key-ring.js'
import type { KeyKind, StoredKey } from '../keys/keys.js'
import { clientAddress } from './client-address.js'
import type { WrongKeys } from './wrong-keys.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** the project of the request's key */
    projectId: string
    /** what a list of keys and the log call the request's key */
    keyId: string
    /** the request's key; absent until it is known and good */
    key: string
  }
}

const REFUSED: Record<KeyKind, string> = {
  secret: 'This call needs the secret key of the project; the key that came is the public one.',
  public:
    'This call needs the public key of the project; the key that came is the secret one, which must never be in a browser.',
}

const CONTINUE = /(?:^|\W)100-continue(?:$|\W)/i

/** Lets requests pass that have a key of the wanted kind. */
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
   * Looks at the header, before anything of the body is read or inflated; a request with an unknown key there goes no
   * further. One of the wrong kind is refused after the body, where another key may stand.
   */
  readonly beforeBody: preParsingHookHandler = (request, reply, payload, done) => {
    request.answer = reply.raw
    const header = request.headers['x-api-key']
    const grant = typeof header === 'string' ? this.#keys.find(header) : null
    const goOn = (grant: StoredKey | null) => {
      if (grant) name(request, grant)
      if (grant?.kind === this.#kind) request.key = header as string
      // Who waits for this word need not send what would be refused. Node closes the connection where it was not said.
      if (request.headers.expect !== undefined && CONTINUE.test(request.headers.expect)) reply.raw.writeContinue()
      done(null, payload)
    }
    if (typeof header !== 'string' || grant) goOn(grant)
    else this.#find(header, request, reply).then(goOn, done)
  }

  /** Before anything else of the request is checked. */
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
    name(request, grant)
    if (grant.kind !== this.#kind) throw new ApiError('wrong_key_kind', REFUSED[this.#kind])
    // Its key has become good since.
    if (request.body instanceof UnreadBody) throw unreadable()
    request.key = key
  }

  /** The project of the key in a body; null where it is not known that the request will pass. */
  projectOf({ headers }: FastifyRequest, keyInBody: unknown): string | null {
    // Of the wrong kind, or the body would not be asked.
    if (headers['x-api-key'] !== undefined || typeof keyInBody !== 'string') return null
    const grant = this.#keys.find(keyInBody)
    return grant?.kind === this.#kind ? grant.projectId : null
  }

  /** As `projectOf`, for a key that may have been made since the stored ones were read. */
  async projectOfNew(request: FastifyRequest, keyInBody: unknown): Promise<string | null> {
    const isUnknown = typeof keyInBody === 'string' && !this.#keys.find(keyInBody)
    if (isUnknown) await this.#keys.findNew(keyInBody)
    return this.projectOf(request, keyInBody)
  }

  /** @throws ContractError `unauthorized`, or `rate_limited` where the address has sent too many wrong keys */
  async #find(key: string, request: FastifyRequest, reply: FastifyReply): Promise<StoredKey> {
    const grant = await this.#keys.findNew(key)
    if (grant) return grant
    if (!this.#keys.isComplete) throw unreadable()
    this.#wrongKeys.count(clientAddress(request), reply)
    throw new ApiError('unauthorized', 'The key is not known. Check the key and its project.')
  }
}

/** The value of a body that was not parsed, as its key is not good. */
export class UnreadBody {
  readonly apiKey: unknown

  constructor(apiKey: unknown) {
    this.apiKey = apiKey
  }
}

function unreadable(): ApiError {
  return new ApiError('unavailable', 'The keys cannot be read at the moment. Try again in a moment.')
}

/** Whose request it is, for the log also where the key is of the wrong kind. */
function name(request: FastifyRequest, { id, projectId }: StoredKey): void {
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
