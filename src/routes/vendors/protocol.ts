import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyError, FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Contexts } from '../../context/contexts.js'
import { ApiError } from '../../contract/errors.js'
import { deepProperties } from '../../contract/property-depth.js'
import type { VendorPrefix } from '../../contract/vendor-prefixes.js'
import type { Admission } from '../../http/admission/admission.js'
import { getSender } from '../../http/admission/authenticate.js'
import { allowAnyPage } from '../../http/cross-origin.js'
import { asApiError, messageFor, noteFailure, retryHeaders, whenDue } from '../../http/error-handler.js'
import { RequestSource } from '../../http/request-source.js'
import { unknownCall } from '../../http/unknown-call.js'
import { type JsonValue, readJson } from '../../json/value.js'
import type { LaneIds } from '../../lanes/lane-ids.js'
import type { MessageSource } from '../../model/request-context.js'
import type { KeptSince } from '../../projects/late-events.js'
import { type SdkMessage, type SdkRequest, TooManyMessagesError } from '../../vendors/message.js'
import { RowFault } from '../../vendors/row.js'
import { SdkBodyError, SdkBodyTooLargeError, unwrapSdkBody } from '../../vendors/sdk-body.js'
import { type Ingested, type IngestParts, ingest, type Plan, planMessages } from './ingest.js'
import { type SdkScript, serveScripts } from './scripts.js'

/** A response in the form that an SDK expects. */
export interface Answer {
  status?: number
  /** default: JSON */
  type?: string
  body: string | Buffer
}

/** The context of a call, in addition to its messages. */
export interface CallContext extends SdkRequest {
  /** path of the call, as registered */
  path: string
  /** the parsed request; null if it is empty */
  json: JsonValue | null
  /** size of the request, bytes */
  length: number
}

/** A call with which SDKs send messages. */
interface SdkCall {
  methods: ('GET' | 'POST')[]
  /** below the vendor's prefix; each also works with a trailing slash */
  paths: string[]
  /**
   * The messages of a request.
   * @throws RowFault if it holds no messages at all
   */
  messages(json: JsonValue, request: CallContext): SdkMessage[]
  answer(ingested: Ingested, request: CallContext): Answer
  /** whether one invalid message refuses the whole request; default: no */
  isAllOrNone?(request: CallContext): boolean
  /**
   * Turns a text that is not valid JSON, such as lines, into one JSON text; returns it unchanged if that is impossible.
   */
  toJson?(text: string): string
}

/** A call that SDKs make at start, or for data that is not stored; it needs no key. */
interface SdkStub {
  method: 'GET' | 'POST'
  path: string
  answer(request: { params: Record<string, string>; host: string; protocol: string }): Answer
}

/** The protocol of a vendor's SDKs. */
export interface SdkProtocol {
  prefix: VendorPrefix
  keyPaths: readonly (readonly (string | 0)[])[]
  calls: SdkCall[]
  stubs: SdkStub[]
  scripts?: SdkScript[]
  /** The response to a request that failed as a whole. */
  failure(error: ApiError): Answer
}

export interface VendorOptions extends IngestParts {
  admission: Admission
  /** bytes of a decompressed body */
  bodyLimit: number
  /** levels of objects and arrays in properties */
  maxDepth: number
  keptSince: KeptSince
  ids: Pick<LaneIds, 'findKnown'>
  contexts: Contexts
  /** the folder in which the operator installed the vendors' scripts */
  scriptsIn: string
}

/** In bytes: a smaller body is cheaper as young garbage. */
const MIN_POOLED_BODY = 4 * 1024

/** The endpoints of a vendor, below its prefix. */
export function vendorRoutes(protocol: SdkProtocol): FastifyPluginAsync<VendorOptions> {
  return async (app, options) => {
    app.register(
      async (scope) => {
        allowAnyPage(scope)
        scope.setErrorHandler((error: FastifyError, request, reply) => {
          return whenDue(error, request, () => fail(protocol, error, request, reply))
        })
        // Let pages read errors, too, because an SDK treats a status that it cannot read as a broken connection.
        scope.setNotFoundHandler((request, reply) => fail(protocol, unknownCall(request), request, reply))
        // Do not read the bodies of unknown calls.
        scope.removeAllContentTypeParsers()
        scope.register(async (stubs) => registerStubs(stubs, protocol))
        scope.register(async (scripts) => serveScripts(scripts, protocol.scripts ?? [], options.scriptsIn))
        scope.register(async (calls) => registerCalls(calls, protocol, options))
      },
      { prefix: protocol.prefix },
    )
  }
}

function registerCalls(scope: FastifyInstance, { calls, keyPaths }: SdkProtocol, options: VendorOptions): void {
  const { admission, bodyLimit } = options
  admission.guardSdk(scope, { unwrap: unwrapSdkBody, keyPaths })
  const paths = calls.flatMap((call) => call.paths.map((path) => ({ call, path })))
  for (const { call, path } of paths) {
    for (const url of spellings(path)) {
      scope.route({
        method: call.methods,
        url,
        bodyLimit,
        config: { access: 'send', hasLongQuery: call.methods.includes('GET'), pooledFrom: MIN_POOLED_BODY },
        handler: async (request, reply) => {
          try {
            const answer = await take(request, call, path, options)
            // A GET that sends an event must reach the service every time.
            reply.header('cache-control', 'no-store')
            return send(reply, answer)
          } finally {
            request.sdk.release()
          }
        },
      })
    }
  }
}

/** Stores durably what a call sends. */
async function take(request: FastifyRequest, call: SdkCall, path: string, options: VendorOptions): Promise<Answer> {
  const context = createContext(request, call, path, options)
  const ingested = await ingest(options, getSender(request), await plan(request, call, context, options), {
    isAllOrNone: call.isAllOrNone?.(context) === true,
    mayDelete: request.keyKind === 'secret',
    mayMerge: request.keyKind === 'secret',
    toll: request.toll,
  })
  return call.answer(ingested, context)
}

function createContext(
  { projectId, sdk, key, headers }: FastifyRequest,
  call: SdkCall,
  path: string,
  { admission }: VendorOptions,
): CallContext {
  return {
    path,
    json: parseSdkJson(sdk, call),
    length: sdk.json.length,
    // An SDK is never admitted by a sign-in, so there is a key.
    key: key as string,
    isOwnKey: (candidate) => admission.isProjectKey(projectId, candidate),
    receivedAt: Date.now(),
    header: (name) => asText(headers[name]),
    fields: sdk.fields,
  }
}

function readName(message: SdkMessage): string[] {
  const name = message.type === 'event' ? message.parts.distinct_id : null
  return typeof name === 'string' ? [name] : []
}

/** Reads the messages of a request. A large one takes long, so other requests get their turns in between. */
async function plan(
  request: FastifyRequest,
  call: SdkCall,
  context: CallContext,
  { admission, maxDepth, keptSince, ids, contexts }: VendorOptions,
): Promise<Plan> {
  const takeTurn = () => admission.turn(request)
  const turn = takeTurn()
  if (turn) await turn
  const { json } = context
  const all = json ? call.messages(json, context) : []
  // Changes of users sent with an events-only key are acknowledged, because the SDK would retry them, and ignored.
  const messages = request.grant?.eventsOnly ? all.filter(({ type }) => type === 'event' || type === 'fault') : all
  // Fields stored in addition to an event's properties are nested one level deeper than they were sent.
  if (json && json.textDepth >= maxDepth) refuseDeep(messages, maxDepth)
  const { projectId, toll } = request
  toll?.countVisitors(projectId, messages.flatMap(readName))
  const source = new RequestSource(request)
  const findContext = (said: MessageSource) => contexts.findOfMessage(projectId, source, said)?.json
  const sender = getSender(request)
  const findKnown = (insertIds: Buffer) => ids.findKnown(sender, insertIds)
  return await planMessages(sender, messages, { since: keptSince(projectId), findContext, findKnown, takeTurn })
}

/**
 * The JSON of a request; null if it is empty.
 * @throws SdkBodyError
 */
function parseSdkJson({ json, value }: FastifyRequest['sdk'], { toJson }: SdkCall): JsonValue | null {
  if (value || json.length === 0) return value
  const made = toJson ? readJson(Buffer.from(toJson(json.toString()))) : null
  if (!made) throw new SdkBodyError('The body is not valid JSON.')
  return made
}

/** Makes faults of the messages whose properties have more levels of objects and arrays than allowed. */
function refuseDeep(messages: SdkMessage[], maxDepth: number): void {
  for (const [i, message] of messages.entries()) {
    const [kept, reason] = deepPart(message, maxDepth)
    const { index } = message
    if (reason !== undefined) messages[i] = { type: 'fault', text: kept, reason, ...(index !== undefined && { index }) }
  }
}

/** The text and the reason for a part of the message that is nested too deeply, if there is one. */
function deepPart(message: SdkMessage, maxDepth: number): [text: string, reason?: string] {
  const inParts: [string, object][] = []
  if (message.type === 'event') {
    const { event, distinct_id, properties = '{}' } = message.parts
    const names = `"event":${JSON.stringify(event ?? null)},"distinct_id":${JSON.stringify(distinct_id ?? null)}`
    inParts.push([`{${names},"properties":${properties}}`, { properties: 1 }])
  }
  if (message.type === 'change') {
    const names = `"distinct_id":${JSON.stringify(message.distinctId)}`
    for (const each of message.operations) inParts.push([`{${names},"operations":${each}}`, { operations: 1 }])
  }
  for (const [text, fields] of inParts) {
    const [deep] = deepProperties(JSON.parse(text), fields, maxDepth)
    if (deep) return [text, `${deep.path.slice(1)} ${deep.message}`]
  }
  return ['']
}

function registerStubs(scope: FastifyInstance, { stubs }: SdkProtocol): void {
  scope.removeAllContentTypeParsers()
  // Do not read what is sent to a stub, because it is not stored.
  scope.addContentTypeParser('*', ({ raw }, _payload, done) => {
    // Bypass the decompression.
    raw.unpipe()
    raw.resume()
    done(null)
  })
  for (const { method, path, answer } of stubs) {
    for (const url of spellings(path)) {
      scope.route({
        method,
        url,
        handler: (request, reply) => {
          const { params, host, headers } = request
          const protocol = outerProtocol(headers) ?? request.protocol
          reply.header('cache-control', 'no-store')
          send(reply, answer({ params: params as Record<string, string>, host, protocol }))
        },
      })
    }
  }
}

/**
 * The protocol with which the page called, as far as the request shows it. The headers need not be trusted, because
 * only the client that sent them gets the response.
 */
function outerProtocol({ origin, 'x-forwarded-proto': forwarded }: IncomingHttpHeaders): 'http' | 'https' | null {
  const first = String(forwarded ?? '')
    .split(',', 1)[0]
    ?.trim()
  if (first === 'http' || first === 'https') return first
  // An HTTPS page can only call HTTPS.
  return origin?.startsWith('https:') ? 'https' : null
}

function fail(protocol: SdkProtocol, error: FastifyError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const known = request.is404 ? unknownCall(request) : asApiError(asRefusal(error))
  noteFailure(request, known, error)
  reply.headers(retryHeaders(known))
  // The rest of the body is drained, so the connection can stay open.
  reply.removeHeader('connection')
  const shown = known.withMessage(messageFor(request, known.message))
  return send(reply, { status: known.status, ...protocol.failure(shown) })
}

const TOO_LARGE = 'The decompressed body is over the limit. Send less per request.'

function asRefusal(error: Error): Error {
  if (error instanceof SdkBodyTooLargeError) return new ApiError('payload_too_large', TOO_LARGE)
  if (error instanceof TooManyMessagesError) return new ApiError('payload_too_large', error.message)
  if (error instanceof SdkBodyError) return new ApiError('invalid_json', error.message)
  if (error instanceof RowFault) return new ApiError('invalid_request', error.message)
  return error
}

function send(reply: FastifyReply, { status = 200, type = 'application/json', body }: Answer): FastifyReply {
  return reply.code(status).header('content-type', type).send(body)
}

function asText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.at(-1) : value
}

/**
 * Returns a path with and without a trailing slash, because some SDKs add one. For `/`, Fastify adds both spellings.
 */
function spellings(path: string): string[] {
  return path === '/' ? [path] : [path, `${path}/`]
}

/** A transparent GIF of one pixel, for calls that a mail or a page makes by loading an image. */
export const PIXEL: Answer = {
  type: 'image/gif',
  body: Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64'),
}
