import type { FastifyInstance, FastifyReply, FastifyRequest, preValidationAsyncHookHandler } from 'fastify'
import { ApiError } from '../../contract/errors.js'
import { MAX_BATCH_WEIGHT, WEIGHT_BYTES, weigh } from '../../json/complexity.js'
import type { JsonValue } from '../../json/value.js'
import { isBrowserKey } from '../../keys/keys.js'
import { type Authentication, continueBody } from './authenticate.js'
import { type Intake, readBody, readBodyInTurns, resumeTurn, takeTurn } from './body.js'
import { SMALL_BODY } from './body-budget.js'
import { findBodyKey, type KeyPath } from './body-key.js'
import { openAccount } from './body-watch.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** what another vendor's SDK sent */
    sdk: SdkPayload
  }
}

/** A request of another vendor's SDK, whose key is known. */
interface SdkPayload {
  /** JSON as the SDK wrote it; empty if the request has none */
  json: Buffer
  /** the parsed JSON; null if it is not valid */
  value: JsonValue | null
  /** the fields of the query, or of the form that held the JSON */
  fields: ReadonlyMap<string, string>
  /** releases the body's buffer; the payload must not be read afterwards */
  release(): void
}

/** How a vendor's SDKs wrap their requests, and where they put their keys. */
export interface SdkFormat {
  /**
   * Takes the JSON out of a body.
   * @param take called with the bytes by which the body grows
   * @throws ApiError
   */
  unwrap(
    raw: Buffer,
    query: string,
    maxBytes: number,
    take: (bytes: number) => void,
  ): Promise<{ json: Buffer; fields: Map<string, string> }>
  /** paths of keys, in the order in which they are tried */
  keyPaths: readonly KeyPath[]
}

/** How many elements of a request are searched for a key, and how many different keys are tried. */
const MAX_ELEMENTS = 1000
const MAX_KEYS = 10
/** Fields of a form or of the query that hold a key. */
const KEY_FIELDS = ['api_key', 'writeKey', 'token', 'client', 'key']

/**
 * Reads the requests of a scope the way another vendor's SDKs send them: with any content type, and the key where that
 * vendor puts it. The key may be inside the body, even if a header has an unknown one, so a body is unwrapped and parsed
 * before its request is refused. It counts against the same budgets as any other body whose key is not known yet.
 */
export function acceptSdkRequests(
  scope: FastifyInstance,
  intake: Intake,
  keys: Authentication,
  { unwrap, keyPaths }: SdkFormat,
): void {
  scope.decorateRequest('sdk')
  scope.decorateRequest('rawResponse')
  scope.addHook('preParsing', (request, reply, payload, done) => {
    request.rawResponse = reply.raw
    plainType(request)
    try {
      keys.recognize(request, reply, keysInHeaders(request))
    } catch (refusal) {
      return done(refusal as ApiError)
    }
    // If no header has a known key, the body may have one.
    continueBody(request, reply)
    done(null, payload)
  })
  scope.removeAllContentTypeParsers()
  const bounds = { ...intake, keyPaths }
  scope.addContentTypeParser('*', async (request: FastifyRequest, payload: Parameters<typeof readBody>[1]) => {
    return await readBody(request, payload, bounds, keys)
  })
  const read = async (
    request: FastifyRequest,
    reply: FastifyReply,
    raw: Buffer,
  ): Promise<Omit<SdkPayload, 'release'>> => {
    const { originalUrl: url } = request
    const query = url.slice(url.indexOf('?') + 1 || url.length)
    const grow = (bytes: number) => countGrowth(request, bytes, intake)
    const { json, fields } = await unwrap(raw, query, request.routeOptions.bodyLimit ?? 0, grow)
    const turn = takeTurn(intake.turns, request)
    if (turn) await turn
    const reading = () => readBodyInTurns(json, MAX_BATCH_WEIGHT, request, () => resumeTurn(intake.turns, request))
    const value = await (request.account?.during(reading) ?? reading())
    const payload = { json, value, fields }
    if (!request.key) await keys.admit(request, reply, candidates(request, payload, keyPaths))
    request.account?.admit(request.projectId)
    if (!value) refuseHeavy(json, request)
    return payload
  }
  const readAll: preValidationAsyncHookHandler = async (request, reply) => {
    const raw = Buffer.isBuffer(request.body) ? request.body : NOTHING
    const release = () => intake.pool.release(raw)
    const turn = takeTurn(intake.turns, request)
    try {
      if (turn) await turn
      request.sdk = { ...(await read(request, reply, raw)), release }
    } catch (error) {
      release()
      throw error
    }
  }
  scope.addHook('preValidation', readAll)
}

const NOTHING = Buffer.alloc(0)
const MEDIA_TYPE = /^\s*([\w!#$&^.+*-]+\/[\w!#$&^.+*-]+)/

/** Keeps only the media type of a Content-Type, or an empty string if it is malformed: Fastify would refuse it. */
function plainType({ raw: { headers } }: FastifyRequest): void {
  const type = headers['content-type']
  if (type === undefined) return
  const [, plain] = MEDIA_TYPE.exec(type) ?? []
  if (plain === undefined) delete headers['content-type']
  else headers['content-type'] = plain
}

/** Charges the account of a body for its growth after decoding; bodies that stay small are not counted. */
function countGrowth(request: FastifyRequest, bytes: number, { budget, browserLimits }: Intake): void {
  const isSmall = request.account === null && bytes <= SMALL_BODY
  if (isSmall) return
  if (!request.grant || isBrowserKey(request.grant.kind)) {
    request.toll ??= browserLimits.open(request)
    request.toll.touch(bytes)
  }
  const account = request.account ?? openAccount(request, request.key ? request.projectId : null, budget)
  account.take(bytes)
}

/** The keys in the headers of a request. The name of a service account looks like a key, but is not one. */
function keysInHeaders({ headers }: FastifyRequest): string[] {
  const [scheme = '', credentials = ''] = headers.authorization?.split(' ') ?? []
  const candidates: unknown[] = [
    headers['x-api-key'],
    headers['openpanel-client-secret'],
    headers['openpanel-client-id'],
  ]
  if (/^bearer$/i.test(scheme)) candidates.push(credentials)
  if (/^basic$/i.test(scheme)) candidates.push(...Buffer.from(credentials, 'base64').toString().split(':', 2))
  // Jitsu's SDK insists on a colon in its key.
  const jitsu = headers['x-write-key']
  if (typeof jitsu === 'string') candidates.push(jitsu.slice(jitsu.indexOf(':') + 1))
  return candidates.filter(isText)
}

/**
 * All candidates for the request's key, the likeliest first. Lazy: the body is searched only while the caller needs
 * more.
 */
function* candidates(
  request: FastifyRequest,
  { json, value, fields }: Omit<SdkPayload, 'release'>,
  paths: readonly KeyPath[],
): Generator<string> {
  yield* keysInHeaders(request)
  for (const path of paths) {
    if (value) yield* keysAt(value, path)
    else yield* [findBodyKey(json, path)].filter(isText)
  }
  yield* KEY_FIELDS.map((name) => fields.get(name)).filter(isText)
}

/**
 * The keys at a path. In an array, any element may have the key: one without a valid key is an error in that
 * element only, and does not fail the request.
 */
function* keysAt(value: JsonValue | undefined, [step, ...rest]: KeyPath): Generator<string> {
  if (!value) return
  if (step === undefined) {
    if (value.isString && isText(value.value)) yield value.value
  } else if (step !== 0) {
    yield* keysAt(value.member(step), rest)
  } else if (value.isArray) {
    const seen = new Set<string>()
    for (const element of value.elements().slice(0, MAX_ELEMENTS)) {
      for (const key of keysAt(element, rest)) {
        if (seen.size === MAX_KEYS) return
        if (!seen.has(key)) yield key
        seen.add(key)
      }
    }
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/**
 * Checks the weight of a body that is not valid JSON as a whole, because its lines may be.
 * @throws ApiError `invalid_request` or `overloaded`
 */
function refuseHeavy(json: Buffer, { account }: FastifyRequest): void {
  const weight = weigh(json, MAX_BATCH_WEIGHT)
  if (weight > MAX_BATCH_WEIGHT)
    throw new ApiError('invalid_request', 'The body has too many values. Send less per request.')
  account?.take(weight * WEIGHT_BYTES)
}
