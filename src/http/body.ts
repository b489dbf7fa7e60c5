import { isAscii, isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../contract/errors.js'
import { MAX_WEIGHT, WEIGHT_BYTES, weigh } from '../json/complexity.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import type { ScannedBody } from '../model/scanned-body.js'
import { type Authentication, UnreadBody } from './authenticate.js'
import { SMALL_BODY } from './body-budget.js'
import { findBodyKey } from './body-key.js'
import { type BodyBounds, BodyWatch } from './body-watch.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** looks at a body that need not be parsed where the look is enough */
    scan?: (raw: Buffer) => ScannedBody | null
    /** from how many bytes on a body is laid into lent memory; only where who takes it gives it back */
    lentFrom?: number
    /** what a body may weigh that is parsed; `MAX_WEIGHT` where absent */
    maxWeight?: number
  }
  interface FastifyRequest {
    /** the body's bytes as they came; only there where a body came */
    rawBody: Buffer
  }
}

/** What reading a body needs. */
export interface Intake extends BodyBounds {
  memory: BufferPool
}

/**
 * Parses bodies of these types as JSON once, and keeps the bytes beside the value. Whatever else comes is a 415. A large
 * body is not parsed before its key is known to be good: where it is not, the value holds nothing but the key, for which
 * the request is then refused.
 */
export function acceptJson(app: FastifyInstance, contentTypes: string[], intake: Intake, keys: Authentication): void {
  const { memory } = intake
  app.decorateRequest('answer')
  app.decorateRequest('account', null)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(contentTypes, async (request: FastifyRequest, payload: Payload) => {
    const raw = await readBody(request, payload, intake, keys)
    const { account } = request
    const scanned = isUtf8(raw) ? request.routeOptions.config.scan?.(raw) : undefined
    if (account && !account.isKnown) {
      const apiKey = scanned ? scanned.apiKey : findBodyKey(raw)
      const projectId = await keys.projectOfNew(request, apiKey)
      if (projectId === null) {
        memory.release(raw)
        return new UnreadBody(apiKey)
      }
      account.admit(projectId)
    }
    request.rawBody = raw
    if (scanned) return scanned
    // Clients send the type along with no body where they send it with everything.
    if (raw.length === 0 && request.method === 'DELETE') return undefined
    return parseJson(raw, request)
  })
}

/**
 * Spells the coding of a body as the decompression knows it. Codings are named in any case, and gzip by its old name, too
 * (RFC 9110, 8.4.1).
 */
export function readCodings(app: FastifyInstance): void {
  app.addHook('onRequest', ({ raw: { headers } }, _reply, done) => {
    const coding = headers['content-encoding']?.trim().toLowerCase()
    if (coding !== undefined) headers['content-encoding'] = coding === 'x-gzip' ? 'gzip' : coding
    done()
  })
}

/** A request's body as it arrives, decompressed. */
interface Payload extends Readable {
  /** bytes that came over the wire, where they are not those of the body */
  receivedEncodedLength?: number
}

/**
 * As Fastify reads a body itself, but counted, and for some routes into memory that is used again.
 * @throws ContractError where the body is over the route's limit or not as long as announced, or where there is no room
 */
function readBody(request: FastifyRequest, payload: Payload, intake: Intake, keys: Authentication): Promise<Buffer> {
  const limit = request.routeOptions.bodyLimit ?? 0
  const lentFrom = request.routeOptions.config.lentFrom ?? Number.POSITIVE_INFINITY
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
      // The rest is read, else the connection could be reset before the answer is; but it is not inflated any more.
      if (payload !== request.raw) {
        request.raw.unpipe()
        request.raw.resume()
        payload.pause()
      }
    }
    const onData = (chunk: Buffer) => {
      length += chunk.length
      chunks.push(chunk)
      try {
        if (length > limit || (payload.receivedEncodedLength ?? 0) > limit) throw tooLarge()
        if (length <= SMALL_BODY) return
        const isFirst = watch === null
        watch ??= new BodyWatch(request, chunks[0], keys, intake, stop)
        watch.count(isFirst ? length : chunk.length)
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
      if (announced !== undefined && (payload.receivedEncodedLength || length) !== Number(announced)) {
        reject(new ApiError('invalid_request', 'The body is not as long as its Content-Length says.'))
      } else {
        resolve(length < lentFrom ? inOne(chunks, length) : intake.memory.concat(chunks, length))
      }
    })
    // What decompresses comes paused.
    payload.resume()
  })
}

function inOne(chunks: Buffer[], length: number): Buffer {
  const [first] = chunks
  const isWhole = first?.length === length && first.buffer.byteLength === length
  return isWhole ? first : Buffer.concat(chunks, length)
}

function tooLarge(): ApiError {
  return new ApiError('payload_too_large', 'The body is over the limit. Send less at once.')
}

function parseJson(raw: Buffer, { routeOptions, account }: FastifyRequest): unknown {
  if (!isUtf8(raw)) throw new ApiError('invalid_json', 'The body is not valid UTF-8.')
  const { maxWeight = MAX_WEIGHT } = routeOptions.config
  // A small one weighs little.
  const weight = account ? weigh(raw, maxWeight) : 0
  if (weight > maxWeight) {
    const message = `The body holds too many values: a field counts for 8, an element of a list for 1, ${maxWeight} is the most. Send less at once.`
    throw new ApiError('invalid_request', message)
  }
  account?.take(weight * WEIGHT_BYTES)
  try {
    // ASCII, which most bodies are, is its own Latin-1, which needs no decoding.
    return JSON.parse(raw.toString(isAscii(raw) ? 'latin1' : 'utf8'))
  } catch (error) {
    // The parser's own message quotes the body, which may hold a key.
    const position = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined
    const where = position === undefined ? '' : ` at position ${position}`
    throw new ApiError('invalid_json', `The body is not valid JSON${where}.`)
  }
}
