import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ErrorDetail, invalidFields } from '../../contract/errors.js'
import { MAX_BATCH } from '../../contract/limits.js'
import { EVENT_FIELDS } from '../../contract/schemas.js'
import { MAX_DETAILS, tooManyEvents } from '../../contract/validation.js'
import { COMMA, LINE_FEED } from '../../json/bytes.js'
import { space } from '../../json/tokens.js'
import { BATCH_HEAD, BATCH_TAIL } from '../../model/scanned-body.js'
import type { Authentication } from './authenticate.js'
import { acceptBodies, type Intake, weighBody } from './body.js'

/**
 * Parses bodies of lines, one event each, as a batch of these events; `rawBody` is its JSON. Such a
 * body has no key. Call it in a separate scope, within that of `acceptJson`.
 */
export function acceptLines(app: FastifyInstance, intake: Intake, keys: Authentication): void {
  acceptBodies(app, ['application/x-ndjson'], { ...intake, keyPaths: [] }, keys, {
    frame: [BATCH_HEAD, BATCH_TAIL],
    findKey: () => undefined,
    parse: (raw, request, takeTurn) => {
      keys.requireHeader(request)
      return parseLines(raw, request, takeTurn)
    },
  })
}

/**
 * Parses lines that the scan did not accept, each separately, so that no line can hold two events.
 * @param raw the lines in the frame of a batch; becomes its JSON
 * @throws ApiError `invalid_json` or `invalid_request` that names the invalid events by index
 */
async function parseLines(
  raw: Buffer,
  request: FastifyRequest,
  takeTurn: () => Promise<void> | null,
): Promise<{ events: unknown[] }> {
  const lines = joinLines(raw).map(({ start, end }) => raw.subarray(start, end))
  if (lines.length > MAX_BATCH) throw tooManyEvents()
  const details: ErrorDetail[] = []
  const events: unknown[] = []
  let isJson = true
  let weight = 0
  for (const [i, line] of lines.entries()) {
    const turn = takeTurn()
    if (turn) await turn
    weight = weighBody(line, request, weight)
    const path = `/events/${i}`
    const event = isUtf8(line) ? tryParse(line) : undefined
    if (event === undefined) {
      isJson = false
      details.push({ path, message: isUtf8(line) ? 'is not valid JSON' : 'is not valid UTF-8' })
    } else if (isFlat(event)) {
      details.push({
        path,
        message: 'has unknown fields and no properties; move them into properties',
      })
    }
    events.push(event)
  }
  if (details.length === 0) return { events }
  throw invalidFields(details.slice(0, MAX_DETAILS), isJson ? 'invalid_request' : 'invalid_json')
}

/**
 * Replaces the line ends between two lines by commas.
 * @returns the range of each line, without leading white space; ends with the first line that is too many
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

function tryParse(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString())
  } catch {
    return undefined
  }
}

const FIELDS: ReadonlySet<string> = new Set(EVENT_FIELDS)

/** Whether an event has unknown fields and no properties: its data is probably in those fields, and would be lost. */
function isFlat(event: unknown): boolean {
  if (typeof event !== 'object' || event === null || Array.isArray(event) || Object.hasOwn(event, 'properties')) {
    return false
  }
  return Object.keys(event).some((name) => !FIELDS.has(name))
}
