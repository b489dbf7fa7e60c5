import type {
  FastifyReply,
  FastifyRequest,
  preParsingHookHandler,
  preValidationHookHandler,
  RouteOptions,
} from 'fastify'
import { ApiError } from '../../contract/errors.js'
import type { KeyRing } from '../../keys/key-ring.js'
import type { KeyUsage } from '../../keys/key-usage.js'
import { type Access, ALLOWED, type KeyKind, type StoredKey, toKeyClass } from '../../keys/keys.js'
import type { RecentOwners } from '../../lib/recent-owners.js'
import type { Sender } from '../../model/sender.js'
import { type BrowserLimits, type Limit, limitedAddress } from './browser-limits.js'
import type { SignIns } from './sign-in.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** default in a guarded scope: `read` for a GET, else `manage`; elsewhere, no key is needed */
    access?: Access
    /** whether keys restricted to events may not make the call */
    changesUsers?: boolean
  }
  interface FastifyRequest {
    /** the project of the request's key; empty until the key is known */
    projectId: string
    /** the id of the request's key, used in the log and in the list of keys */
    keyId: string
    /** kind of the request's key; null until it is known */
    keyKind: KeyKind | null
    /** why the key in the header may not make the call; null if it may, or if there is no known key in it */
    keyRefusal: ApiError | null
    /** the key that admitted the request, directly or through a sign-in; null until it has been verified */
    grant: StoredKey | null
    /** the sign-in to the page that came with the request, used if it has no other key */
    signIn: StoredKey | null
    /** the text of the request's key; absent until it has been verified, and if a sign-in stands for it */
    key: string | undefined
  }
}

/** Sets the access of a route that does not name it. */
export function setDefaultAccess(route: RouteOptions): void {
  route.config = { access: chooseAccess([route.method].flat()), ...route.config }
}

function chooseAccess(methods: readonly string[]): Access {
  return methods.every((method) => method === 'GET' || method === 'HEAD') ? 'read' : 'manage'
}

function wrongKind(access: Access, kind: KeyKind): ApiError {
  const never = kind === 'secret' ? ', which must never be in a browser' : ''
  const needed = ALLOWED[access].join(' or ')
  return new ApiError(
    'wrong_key_kind',
    `This call needs a ${needed} key of the project; you sent a ${kind} key${never}.`,
  )
}

function otherOrigin(origins: readonly string[]): ApiError {
  return new ApiError(
    'wrong_key_kind',
    `This key only works on pages of ${origins.join(', ')}, and this request does not come from one.`,
  )
}

function eventsOnly(): ApiError {
  return new ApiError('wrong_key_kind', 'This key may only send events and session calls. It cannot change users.')
}

/** The origin of the page that makes a request; undefined if the request does not say. */
function readOrigin({ headers: { origin, referer } }: FastifyRequest): string | undefined {
  if (origin !== undefined || referer === undefined) return origin
  // Requests for images have no Origin.
  return URL.canParse(referer) ? new URL(referer).origin : undefined
}

const ALLOWED_ORIGIN = 'access-control-allow-origin'
const CONTINUE = /(?:^|\W)100-continue(?:$|\W)/i

export interface AuthenticationOptions {
  keys: KeyRing
  wrongKeys: Limit
  limits: BrowserLimits
  /** called with the sender of each request */
  owners: RecentOwners
  usage: KeyUsage
}

/** Admits requests that have a key which may make the call. */
export class Authentication {
  readonly #options: AuthenticationOptions
  readonly #signIns: SignIns | null

  /** @param signIns the sign-ins to the page, if they admit requests */
  constructor(options: AuthenticationOptions, signIns: SignIns | null) {
    this.#options = options
    this.#signIns = signIns
  }

  /**
   * Checks the header before any of the body is read or inflated, and refuses a request with an
   * unknown key there, or with one that is over its limits. A key that may not make the call is
   * refused only after the body has been read, because the body may hold another key.
   */
  readonly beforeBody: preParsingHookHandler = (request, reply, payload, done) => {
    request.rawResponse = reply.raw
    const header = request.headers['x-api-key']
    const grant = typeof header === 'string' ? this.#options.keys.find(header) : null
    const proceed = (grant: StoredKey | null) => {
      try {
        if (grant) this.#recognize(request, reply, grant, header as string)
      } catch (refusal) {
        return done(refusal as ApiError)
      }
      continueBody(request, reply)
      done(null, payload)
    }
    // A beacon from another page also sends the cookie, with its own key in the body, so read the body before refusing
    // it.
    if (header === undefined) request.signIn = this.#signIns?.findOfPage(request) ?? null
    if (typeof header !== 'string' || grant) proceed(grant)
    else this.#find(header, request).then(proceed, done)
  }

  /** Runs before any other check of the request. */
  readonly afterBody: preValidationHookHandler = (request, reply, done) => {
    const inBody = bodyKey(request.body)
    // The header has admitted most requests, so they need no promise.
    if (request.key === undefined) this.#admitByBody(request, reply, inBody).then(() => done(), done)
    else if (inBody !== undefined && inBody !== request.key) done(differentKeys())
    else done()
  }

  /**
   * For calls whose body contains no key: only the header, or a sign-in, can admit the request.
   * @throws ApiError `unauthorized`
   */
  requireHeader(request: FastifyRequest): void {
    if (request.headers['x-api-key'] === undefined && !this.#signIns?.find(request)) throw missingKey()
  }

  /** Admits a request that its header has not admitted. @throws ApiError as `admit` */
  async #admitByBody(request: FastifyRequest, reply: FastifyReply, inBody: unknown): Promise<void> {
    const header = request.headers['x-api-key']
    if (header === undefined && inBody === undefined) {
      const signIn = this.#signIns?.find(request)
      if (signIn) return this.#admitSignIn(request, reply, signIn)
      throw missingKey()
    }
    if (header !== undefined && inBody !== undefined && header !== inBody) throw differentKeys()
    const key = inBody ?? header
    if (typeof key !== 'string') throw new ApiError('unauthorized', 'The key must be a string.')
    const grant = this.#options.keys.find(key) ?? (await this.#find(key, request))
    this.#identify(request, reply, grant)
    this.#refuseUnlessGranted(request, grant)
    // The key became known only after the body was discarded, so the client has to retry.
    if (request.body instanceof UnreadBody) throw keysUnavailable()
    this.#admitBy(request, grant, key)
  }

  /** @throws ApiError `wrong_key_kind`, for a sign-in with a read key */
  #admitSignIn(request: FastifyRequest, reply: FastifyReply, grant: StoredKey): void {
    this.#identify(request, reply, grant)
    this.#refuseUnlessGranted(request, grant)
    request.grant = grant
    this.#options.usage.noteUse(grant)
    // Proxies could serve a response to others if its request has no key header; browsers, after signing out.
    reply.header('cache-control', 'private, no-store')
  }

  /**
   * Notes the key of a request if one of the candidates is known and may make the call; any other
   * request is decided by `admit`, after the body.
   * @throws ApiError `rate_limited`
   */
  recognize(request: FastifyRequest, reply: FastifyReply, candidates: string[]): void {
    for (const key of candidates) {
      const grant = this.#options.keys.find(key)
      if (!grant) continue
      this.#recognize(request, reply, grant, key)
      return
    }
  }

  /**
   * Admits a request by the first of the candidates that is known.
   * @throws ApiError `unauthorized`, `wrong_key_kind`, `rate_limited` or `unavailable`
   */
  async admit(request: FastifyRequest, reply: FastifyReply, candidates: Iterable<string>): Promise<void> {
    const unknown: string[] = []
    let found: { key: string; grant: StoredKey } | undefined
    for (const key of candidates) {
      const grant = this.#options.keys.find(key)
      if (grant) {
        found = { key, grant }
        break
      }
      unknown.push(key)
    }
    if (!found && unknown.length === 0)
      throw new ApiError('unauthorized', 'The key is missing. Configure it in the SDK.')
    const { key, grant } = found ?? (await this.#findAny(unknown, request))
    this.#identify(request, reply, grant)
    this.#refuseUnlessGranted(request, grant)
    this.#admitBy(request, grant, key)
  }

  /** The grant of the key in a body; null unless that key is known and will admit the request. */
  findBodyGrant(request: FastifyRequest, keyInBody: unknown): StoredKey | null {
    const { signIn } = request
    if (keyInBody === undefined && signIn) return this.#checkGrant(request, signIn) ? null : signIn
    // A key of the right kind in the header would have admitted the request already, so that key is of the wrong kind.
    if (request.headers['x-api-key'] !== undefined || typeof keyInBody !== 'string') return null
    const grant = this.#options.keys.find(keyInBody)
    return grant && !this.#checkGrant(request, grant) ? grant : null
  }

  /** Like `findBodyGrant`, but also finds keys that were created since the last refresh. */
  async findFreshBodyGrant(request: FastifyRequest, keyInBody: unknown): Promise<StoredKey | null> {
    const isUnknown = typeof keyInBody === 'string' && !this.#options.keys.find(keyInBody)
    if (isUnknown) await this.#options.keys.findNew(keyInBody)
    return this.findBodyGrant(request, keyInBody)
  }

  /** Notes the sender of the request, so that the log has it even if the key is of the wrong kind. */
  #identify(request: FastifyRequest, reply: FastifyReply, { id, projectId, kind }: StoredKey): void {
    this.#options.owners.note(projectId)
    request.keyId = id
    request.projectId = projectId
    request.keyKind = kind
    // Pages may send with a write key from any origin, but must not read responses to a secret key.
    if (kind !== 'secret' || !reply.hasHeader(ALLOWED_ORIGIN)) return
    if (request.routeOptions.config.access === 'send') reply.removeHeader(ALLOWED_ORIGIN)
  }

  /** Notes a key that is known before the body is read. @throws ApiError `rate_limited` */
  #recognize(request: FastifyRequest, reply: FastifyReply, grant: StoredKey, key: string): void {
    this.#identify(request, reply, grant)
    const refusal = this.#checkGrant(request, grant)
    if (refusal) request.keyRefusal = refusal
    else this.#admitBy(request, grant, key)
  }

  /** @throws ApiError `rate_limited` */
  #admitBy(request: FastifyRequest, grant: StoredKey, key: string): void {
    request.grant = grant
    request.key = key
    this.#options.usage.noteUse(grant)
    this.#options.limits.admit(request, grant)
  }

  /** @throws ApiError `wrong_key_kind` */
  #refuseUnlessGranted(request: FastifyRequest, grant: StoredKey): void {
    const refusal = this.#checkGrant(request, grant)
    if (!refusal) return
    this.#options.usage.noteRefusal(grant)
    throw refusal
  }

  /** Why a key may not make a call; null if it may. */
  #checkGrant(request: FastifyRequest, grant: StoredKey): ApiError | null {
    const { config } = request.routeOptions
    // An unknown path is refused to the same keys as a route would be.
    const { access = chooseAccess([request.method]), changesUsers } = config
    if (!ALLOWED[access].includes(grant.kind)) return wrongKind(access, grant.kind)
    if (grant.eventsOnly && changesUsers) return eventsOnly()
    const { origins } = grant
    if (origins.length > 0 && !origins.includes(readOrigin(request) ?? '')) return otherOrigin(origins)
    return null
  }

  /**
   * @throws ApiError `unauthorized`, or `rate_limited` if the address has sent too many wrong keys
   */
  async #find(key: string, request: FastifyRequest): Promise<StoredKey> {
    return (await this.#findAny([key], request)).grant
  }

  /** Like `#find`, for the first known key of several. */
  async #findAny(keys: string[], request: FastifyRequest): Promise<{ key: string; grant: StoredKey }> {
    for (const key of keys) {
      const grant = await this.#options.keys.findNew(key)
      if (grant) return { key, grant }
    }
    if (!this.#options.keys.isComplete) throw keysUnavailable()
    this.#options.wrongKeys.count(limitedAddress(request), Date.now())
    throw new ApiError('unauthorized', 'The key is not known. Check the key and its project.')
  }
}

/** Replaces a body that was not parsed because its key is unknown. */
export class UnreadBody {
  readonly apiKey: unknown

  constructor(apiKey: unknown) {
    this.apiKey = apiKey
  }
}

function keysUnavailable(): ApiError {
  return new ApiError('unavailable', 'The keys cannot be checked right now. Try again in a moment.')
}

/**
 * Sends 100 Continue to a client that waits for it. Call it once it is known that the body will be read: a body that
 * would be refused need not be sent, and without a 100 Continue, Node closes the connection.
 */
export function continueBody({ headers: { expect } }: FastifyRequest, { raw }: FastifyReply): void {
  if (expect !== undefined && CONTINUE.test(expect)) raw.writeContinue()
}

function bodyKey(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || !('apiKey' in body)) return undefined
  return body.apiKey ?? undefined
}

function missingKey(): ApiError {
  return new ApiError('unauthorized', 'The key is missing. Send it in the field apiKey or in the header x-api-key.')
}

function differentKeys(): ApiError {
  return new ApiError('unauthorized', 'The keys in the header x-api-key and in the field apiKey differ.')
}

/** The sender of a request that was admitted by a key. */
export function getSender({ projectId, keyKind }: Pick<FastifyRequest, 'projectId' | 'keyKind'>): Sender {
  if (keyKind === null) throw new Error('the request has no known key')
  return { projectId, keyClass: toKeyClass(keyKind) }
}
