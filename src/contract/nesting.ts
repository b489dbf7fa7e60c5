import type { ErrorDetail } from './errors.js'

/**
 * What parsing a body costs, and keeping its values: 8 for a field of an object, 1 for an element of a list. JSON.parse
 * takes up to 0.4 us for a field, where all names differ, and 0.01 to 0.05 us for an element (Node 20, one core of an AMD
 * EPYC). No other call is answered meanwhile, so a body may weigh so much that it takes some 10 ms.
 */
export const MAX_WEIGHT = 8 * 25_000
/** Of a profile or a session, whose values are looked at one by one. */
export const MAX_STATE_WEIGHT = 8 * 10_000
/** Of a batch, whose events mostly have the same names, so that a field takes 0.03 us. */
export const MAX_BATCH_WEIGHT = 8 * 200_000
/** Of memory for each unit of weight, at most. */
export const WEIGHT_BYTES = 32
/** So much does the colon of a field weigh, beside the comma or the brace before it. */
export const COLON_WEIGHT = 7

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b

/**
 * The weight of a JSON text; more than `max` where it is over that, when the rest is not looked at. Of any other text
 * nothing is promised but an answer.
 */
export function weigh(raw: Buffer, max: number): number {
  let weight = 0
  for (let at = 0; at < raw.length && weight <= max; at++) {
    switch (raw[at]) {
      case QUOTE:
        for (at++; at < raw.length && raw[at] !== QUOTE; at++) if (raw[at] === BACKSLASH) at++
        break
      case COLON:
        weight += COLON_WEIGHT
        break
      case COMMA:
      case OPEN_BRACE:
      case OPEN_BRACKET:
        weight++
    }
  }
  return weight
}

/** The fields that hold properties, and the levels of objects around these. */
const HOLDERS: [field: string, around: number][] = [
  ['properties', 0],
  // the operators
  ['operations', 1],
]

/**
 * The properties in a parsed body that have more than `max` levels of objects and arrays, themselves included.
 * @param fields what the call knows: others mean nothing, so they may be as deep as they like
 */
export function deepProperties(body: unknown, fields: object, max: number): ErrorDetail[] {
  if (!isObject(body)) return []
  const found: ErrorDetail[] = []
  const check = (path: string, value: unknown, levels: number) => {
    if (isDeeper(value, levels)) found.push({ path, message: `must not be nested more than ${max} levels deep` })
  }
  for (const [field, around] of HOLDERS) {
    if (field in fields) check(`/${field}`, body[field], max + around)
  }
  if ('events' in fields && Array.isArray(body.events)) {
    for (const [i, event] of body.events.entries()) {
      if (isObject(event)) check(`/events/${i}/properties`, event.properties, max)
    }
  }
  return found
}

/** It recurses at most as deep as is allowed. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  const values: unknown[] = Array.isArray(value) ? value : Object.values(value)
  return values.some((inner) => isDeeper(inner, levels - 1))
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
