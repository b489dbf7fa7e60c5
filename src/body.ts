import { isAscii, isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { isCrowded, MAX_MEMBERS } from './body-limits.js'
import { ContractError } from './errors.js'
import type { ScannedBody } from './scan.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** looks at a body that need not be parsed where the look is enough */
    scan?: (raw: Buffer) => ScannedBody | null
  }
  interface FastifyRequest {
    /** the body's bytes as they came; only there where a body came */
    rawBody: Buffer
  }
}

/** Parses bodies of these types as JSON once, and keeps the bytes beside the value. Whatever else comes is a 415. */
export function acceptJson(app: FastifyInstance, contentTypes: string[]): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(contentTypes, { parseAs: 'buffer' }, async (request: FastifyRequest, raw: Buffer) => {
    request.rawBody = raw
    const scanned = isUtf8(raw) ? request.routeOptions.config.scan?.(raw) : undefined
    if (scanned) return scanned
    // Clients send the type along with no body where they send it with everything.
    if (raw.length === 0 && request.method === 'DELETE') return undefined
    return parseJson(raw)
  })
}

function parseJson(raw: Buffer): unknown {
  if (!isUtf8(raw)) throw new ContractError('invalid_json', 'The body is not valid UTF-8.')
  if (isCrowded(raw)) {
    const message = `The body holds more than ${MAX_MEMBERS} names, objects and arrays. Send less at once.`
    throw new ContractError('invalid_request', message)
  }
  try {
    // ASCII, which most bodies are, is its own Latin-1, which needs no decoding.
    return JSON.parse(raw.toString(isAscii(raw) ? 'latin1' : 'utf8'))
  } catch (error) {
    // The parser's own message quotes the body, which may hold a key.
    const position = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined
    const where = position === undefined ? '' : ` at position ${position}`
    throw new ContractError('invalid_json', `The body is not valid JSON${where}.`)
  }
}
