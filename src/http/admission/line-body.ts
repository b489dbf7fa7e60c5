import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError, type ErrorDetail } from '../../contract/errors.js'
import { MAX_BATCH } from '../../contract/limits.js'
import { MAX_DETAILS, tooManyEvents } from '../../contract/validation.js'
import { COMMA, LINE_FEED } from '../../json/bytes.js'
import { space } from '../../json/tokens.js'
import { BATCH_HEAD, BATCH_TAIL } from '../../model/scanned-body.js'
import type { Authentication } from './authenticate.js'
import { acceptBodies, type BodyForm, type Intake, weighBody } from './body.js'

const LINES: BodyForm = {
  frame: [BATCH_HEAD, BATCH_TAIL],
  findKey: () => undefined,
  parse: parseLines,
}

/**
 * Parses bodies of lines, one event each, as a batch of these events; `rawBody` is its JSON. Such a
 * body holds no key. Call it in a scope of its own, within that of `acceptJson`.
 */
export function acceptLines(app: FastifyInstance, intake: Intake, keys: Authentication): void {
  acceptBodies(app, ['application/x-ndjson'], { ...intake, keyPaths: [] }, keys, LINES)
}

/**
 * Parses lines that no scan has found to be valid events, each by itself, so that none can hold two.
 * @param raw the lines in the frame of a batch; becomes its JSON
 * @throws ApiError `invalid_json` or `invalid_request` that names the events at fault by their index
 */
function parseLines(raw: Buffer, request: FastifyRequest): { events: unknown[] } {
  const lines = joinLines(raw).map(({ start, end }) => raw.subarray(start, end))
  if (lines.length > MAX_BATCH) throw tooManyEvents()
  weighBody(lines, request)
  const details: ErrorDetail[] = []
  let isJson = true
  const events = lines.map((line, i) => {
    const path = `/events/${i}`
    const event = isUtf8(line) ? parsed(line) : undefined
    if (event === undefined) {
      isJson = false
      details.push({ path, message: isUtf8(line) ? 'is not valid JSON' : 'is not valid UTF-8' })
    } else if (isFlat(event)) {
      details.push({
        path,
        message: 'has unknown fields and no properties; move them into properties',
      })
    }
    return event
  })
  const [first] = details
  if (!first) return { events }
  const code = isJson ? 'invalid_request' : 'invalid_json'
  throw new ApiError(code, `${first.path} ${first.message}.`, { details: details.slice(0, MAX_DETAILS) })
}

/**
 * Replaces the line ends between two lines by commas.
 * @returns where each line is, from its first text on; without blank ones, and those beyond the first that is too many
 */
function joinLines(raw: Buffer): { start: number; end: number }[] {
  const lines: { start: number; end: number }[] = []
  const end = raw.length - BATCH_TAIL.length
  // Blank lines are skipped with the white space: a body may hold 20 million of them.
  for (let start = space(raw, BATCH_HEAD.length); start < end && lines.length <= MAX_BATCH; ) {
    const found = raw.indexOf(LINE_FEED, start)
    const lineEnd = found === -1 ? end : found
    const before = lines.at(-1)
    if (before) raw[before.end] = COMMA
    lines.push({ start, end: lineEnd })
    start = space(raw, lineEnd)
  }
  return lines
}

function parsed(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString())
  } catch {
    return undefined
  }
}

const FIELDS = new Set(['event', 'distinct_id', 'timestamp', 'insert_id'])

/** Whether it has fields that no event has, and no properties: to leave those out would be a loss. */
function isFlat(event: unknown): boolean {
  if (typeof event !== 'object' || event === null || Array.isArray(event) || Object.hasOwn(event, 'properties')) {
    return false
  }
  return Object.keys(event).some((name) => !FIELDS.has(name))
}
