import { isAscii, isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../../contract/errors.js'
import { MAX_WEIGHT, WEIGHT_BYTES, weigh } from '../../json/complexity.js'
import { type JsonValue, makeValueInTurns, readJsonInTurns } from '../../json/value.js'
import type { BufferPool } from '../../lib/buffer-pool.js'
import type { Turns } from '../../lib/turns.js'
import type { ScannedBody } from '../../model/scanned-body.js'
import { type Authentication, UnreadBody } from './authenticate.js'
import { SMALL_BODY } from './body-budget.js'
import { findBodyKey } from './body-key.js'
import { type BodyBounds, BodyWatch } from './body-watch.js'
import { clientAddress } from './browser-limits.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** scans a body; one that it accepts is not parsed */
    scan?: (raw: Buffer) => ScannedBody | null
    /** bodies from this many bytes on use a pooled buffer; only for a route that releases it */
    pooledFrom?: number
    /** maximum weight of a parsed body (see json/complexity.ts); default: `MAX_WEIGHT` */
    maxWeight?: number
    /** a better reason for refusing a body that weighs too much; null or absent: its weight */
    heavyRefusal?: (raw: Buffer) => ApiError | null
  }
  interface FastifyRequest {
    /** the body's bytes, decompressed; absent if there was no body */
    rawBody: Buffer
    /** the JSON of a body that was read in pieces; null for any other */
    json: JsonValue | null
  }
}

/** The resources and limits for reading bodies. */
export interface Intake extends BodyBounds {
  pool: BufferPool
  /** turns of the requests whose body has arrived */
  turns: Turns
}

/** Bodies over this size are parsed in pieces, because JSON.parse needs about 10 ms per MiB. */
const AT_ONCE_BYTES = 1024 * 1024

/** The form of bodies, and how they are parsed. */
export interface BodyForm {
  /** the bytes before and after the body's own bytes in `rawBody` */
  frame: readonly [head: Buffer, tail: Buffer] | null
  /** the key in the body, if there is one */
  findKey(raw: Buffer): unknown
  /**
   * @param takeTurn lets others go first between the pieces of a large body
   * @returns the value, or a promise of it
   * @throws ApiError for a body that is not valid
   */
  parse(raw: Buffer, request: FastifyRequest, takeTurn: () => Promise<void> | null): unknown
}

const JSON_FORM: BodyForm = { frame: null, findKey: (raw) => findBodyKey(raw), parse: parseJson }

/** Parses bodies of these types as JSON. */
export function acceptJson(app: FastifyInstance, contentTypes: string[], intake: Intake, keys: Authentication): void {
  app.decorateRequest('rawResponse')
  acceptBodies(app, contentTypes, intake, keys, JSON_FORM)
}

/**
 * Parses bodies of these types, and keeps the bytes in addition to the value. Bodies of other types get a 415. A large
 * body is not parsed before its key is verified: if the key is unknown, the value is an
 * `UnreadBody`, and `Authentication.afterBody` refuses the request.
 */
export function acceptBodies(
  app: FastifyInstance,
  contentTypes: string[],
  intake: Intake,
  keys: Authentication,
  { frame, findKey, parse }: BodyForm,
): void {
  const { pool, turns } = intake
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(contentTypes, async (request: FastifyRequest, payload: Payload) => {
    try {
      const raw = await readBody(request, payload, intake, keys, frame)
      const turn = takeTurn(turns, request, () => keys.findBodyGrant(request, findKey(raw))?.projectId ?? null)
      if (turn) await turn
      const scanned = isUtf8(raw) ? request.routeOptions.config.scan?.(raw) : undefined
      const { account } = request
      if (account && !account.isKnown) {
        const apiKey = scanned ? scanned.apiKey : findKey(raw)
        const grant = await keys.findFreshBodyGrant(request, apiKey)
        if (grant === null) {
          pool.release(raw)
          return new UnreadBody(apiKey)
        }
        account.admit(grant.projectId)
      }
      request.rawBody = raw
      if (scanned) return scanned
      if (raw.length === 0 && request.method === 'DELETE') return undefined
      const value = () => parse(raw, request, () => resumeTurn(turns, request))
      return await (account ? account.during(value) : value())
    } catch (error) {
      // A body that cannot be read has no key, so the key in the header decides.
      throw request.keyRefusal ?? error
    }
  })
  app.addContentTypeParser('*', async (request: FastifyRequest) => {
    // Some clients send a Content-Type with every request, even without a body.
    if (request.method === 'DELETE' && !announcesBody(request)) return undefined
    throw request.keyRefusal ?? new ApiError('unsupported_media_type', `The body must be ${contentTypes[0]}.`)
  })
}

/**
 * Takes a turn for the request's project and kind of key or, while the key is unknown, for its probable project or its
 * address.
 * @returns when the request may be worked on; null: immediately
 */
export function takeTurn(
  turns: Turns,
  request: FastifyRequest,
  findProject: () => string | null = () => null,
): Promise<void> | null {
  return turns.take(() => findOwner(request) ?? findProject() ?? clientAddress(request))
}

/** Like `takeTurn`, between the pieces of a request's work. */
export function resumeTurn(turns: Turns, request: FastifyRequest): Promise<void> | null {
  return turns.resume(() => findOwner(request) ?? clientAddress(request))
}

function findOwner({ keyKind, projectId, account }: FastifyRequest): string | undefined {
  return keyKind === null ? account?.owner : `${projectId} ${keyKind}`
}

function announcesBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0
}

/**
 * Prepares compressed bodies for decompression. Normalizes the Content-Encoding, because codings are case-insensitive
 * and gzip has an old name, too (RFC 9110, 8.4.1). Drains the part of a body that is unread after the response: Node
 * drains only bodies that nothing has begun to read, so the next request on the connection would wait. It must not be
 * drained earlier, because `request.signal` aborts at the end of the body, and with it a streamed response.
 */
export function prepareCompressed(app: FastifyInstance): void {
  app.addHook('onRequest', ({ raw }, reply, done) => {
    const coding = raw.headers['content-encoding']?.trim().toLowerCase()
    if (coding !== undefined) {
      raw.headers['content-encoding'] = coding === 'x-gzip' ? 'gzip' : coding
      // An onResponse hook would make Fastify add two listeners to every response.
      reply.raw.once('finish', () => {
        if (!raw.readableEnded) drain(raw)
      })
    }
    done()
  })
}

/** Discards the rest of a body without inflating it. */
function drain(raw: IncomingMessage): void {
  raw.unpipe()
  raw.resume()
}

/** A request's body as it arrives, decompressed. */
interface Payload extends Readable {
  /** compressed bytes received so far; absent if the body is not compressed */
  receivedEncodedLength?: number
  /** compressed bytes that the decompression has used; absent if the body is not compressed */
  bytesWritten?: number
}

/**
 * Reads a body as Fastify does, but counts it against the budget, and uses a pooled buffer for
 * some routes.
 * @param frame put around the body, and not counted
 * @throws ApiError `payload_too_large` over the route's limit, `invalid_request` for a wrong Content-Length,
 *   `invalid_json` for trailing data after a compressed body, `overloaded` if the budget is exhausted
 */
export function readBody(
  request: FastifyRequest,
  payload: Payload,
  intake: Intake,
  keys: Authentication,
  frame: BodyForm['frame'] = null,
): Promise<Buffer> {
  const { bodyLimit: limit = 0, config } = request.routeOptions
  const { pooledFrom = Number.POSITIVE_INFINITY } = config
  const announced = request.headers['content-length']
  return new Promise((resolve, reject) => {
    if (Number(announced) > limit) return reject(tooLarge())
    let chunks: Buffer[] = []
    let length = 0
    let watch: BodyWatch | null = null
    let isStopped = false
    const stop = () => {
      isStopped = true
      chunks = []
      watch?.end()
      payload.off('data', onData)
      // The rest is drained, or the client might see a reset instead of the response; but it is no
      // longer inflated.
      if (payload !== request.raw) {
        drain(request.raw)
        payload.pause()
      }
    }
    const onData = (chunk: Buffer) => {
      length += chunk.length
      chunks.push(chunk)
      try {
        if (length > limit || (payload.receivedEncodedLength ?? 0) > limit) throw tooLarge()
        if (length <= SMALL_BODY) return
        const added = watch === null ? length : chunk.length
        watch ??= new BodyWatch(request, chunks[0], keys, intake, stop)
        watch.count(added)
        if (payload.receivedEncodedLength !== undefined) watch.countInflated(added, payload.receivedEncodedLength)
      } catch (refusal) {
        stop()
        reject(refusal)
      }
    }
    payload.on('data', onData)
    payload.on('error', (error) => {
      watch?.end()
      reject(Object.assign(error, { statusCode: 400 }))
    })
    payload.on('end', () => {
      if (isStopped) return
      watch?.end()
      request.sentBytes = payload.receivedEncodedLength ?? length
      // Decompressors other than gzip's ignore trailing data. It may be another event.
      const { receivedEncodedLength = 0, bytesWritten = receivedEncodedLength } = payload
      if (bytesWritten < receivedEncodedLength) {
        reject(new ApiError('invalid_json', 'The compressed body has trailing data.'))
        return
      }
      if (announced !== undefined && (payload.receivedEncodedLength || length) !== Number(announced)) {
        reject(new ApiError('invalid_request', 'The length of the body does not match its Content-Length.'))
        return
      }
      const all = frame ? [frame[0], ...chunks, frame[1]] : chunks
      const size = frame ? length + frame[0].length + frame[1].length : length
      resolve(size < pooledFrom ? joinChunks(all, size) : intake.pool.concat(all, size))
    })
    // A decompressing stream arrives paused.
    payload.resume()
  })
}

function joinChunks(chunks: Buffer[], length: number): Buffer {
  const [first] = chunks
  const isWhole = first?.length === length && first.buffer.byteLength === length
  return isWhole ? first : Buffer.concat(chunks, length)
}

function tooLarge(): ApiError {
  return new ApiError('payload_too_large', 'The body is over the limit. Send less per request.')
}

function parseJson(raw: Buffer, request: FastifyRequest, takeTurn: () => Promise<void> | null): unknown {
  if (!isUtf8(raw)) throw new ApiError('invalid_json', 'The body is not valid UTF-8.')
  return raw.length > AT_ONCE_BYTES ? parseInTurns(raw, request, takeTurn) : parseAtOnce(raw, request)
}

/**
 * Reads the JSON of a body in pieces, and counts the memory that it takes as it grows: many bodies may be read at the
 * same time.
 * @returns null if it is not valid, or heavier than `maxWeight`
 * @throws ApiError `overloaded`
 */
export async function readBodyInTurns(
  raw: Buffer,
  maxWeight: number,
  { account }: FastifyRequest,
  takeTurn: () => Promise<void> | null,
): Promise<JsonValue | null> {
  let counted = 0
  const count = (weight: number) => {
    account?.take((weight - counted) * WEIGHT_BYTES)
    counted = weight
  }
  const json = await readJsonInTurns(raw, maxWeight, (weight) => {
    count(weight)
    return takeTurn()
  })
  if (json) count(json.textWeight)
  return json
}

async function parseInTurns(
  raw: Buffer,
  request: FastifyRequest,
  takeTurn: () => Promise<void> | null,
): Promise<unknown> {
  const { maxWeight = MAX_WEIGHT } = request.routeOptions.config
  const json = await readBodyInTurns(raw, maxWeight, request, takeTurn)
  request.json = json
  // If the body is rejected, parsing it in one go finds out why.
  return json ? await makeValueInTurns(json, takeTurn) : parseAtOnce(raw, request)
}

function parseAtOnce(raw: Buffer, request: FastifyRequest): unknown {
  weighBody(raw, request)
  try {
    // Most bodies are ASCII, which reads the same as Latin-1, and Latin-1 needs no decoding.
    return JSON.parse(raw.toString(isAscii(raw) ? 'latin1' : 'utf8'))
  } catch (error) {
    // The parser's own message quotes the body, which may contain a key.
    const position = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined
    const where = position === undefined ? '' : ` at position ${position}`
    throw new ApiError('invalid_json', `The body is not valid JSON${where}.`)
  }
}

/**
 * Counts the memory that a body takes once it is parsed.
 * @param text the body, or a part of it that is parsed separately
 * @param before the weight of the parts before it
 * @returns the weight of all parts so far
 * @throws ApiError `invalid_request` if they hold too many values, unless their route has another reason; `overloaded`
 */
export function weighBody(text: Buffer, { routeOptions, account }: FastifyRequest, before = 0): number {
  const { maxWeight = MAX_WEIGHT, heavyRefusal } = routeOptions.config
  // A small body has no account; it weighs little.
  if (!account) return 0
  const weight = weigh(text, maxWeight - before)
  if (before + weight > maxWeight) {
    const message = `The body is too complex: a field counts 8 and an array element 1, and the limit is ${maxWeight}. Send less per request.`
    throw heavyRefusal?.(text) ?? new ApiError('invalid_request', message)
  }
  account.take(weight * WEIGHT_BYTES)
  return before + weight
}
