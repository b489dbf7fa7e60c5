import type { ErrorDetail } from './errors.js'

/**
 * Names, objects and arrays in a body, whether or not it need be parsed. JSON.parse takes 0.2 s for so many, during which
 * nothing else is answered, and 2 s for the most that 20 MiB can hold.
 */
export const MAX_MEMBERS = 500_000

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b

/** Whether a JSON text has more than `MAX_MEMBERS`; of any other text nothing is promised but an answer. */
export function isCrowded(raw: Buffer): boolean {
  if (raw.length <= MAX_MEMBERS) return false
  let members = 0
  for (let at = 0; at < raw.length; at++) {
    switch (raw[at]) {
      case QUOTE:
        for (at++; at < raw.length && raw[at] !== QUOTE; at++) if (raw[at] === BACKSLASH) at++
        break
      case COLON:
      case OPEN_BRACE:
      case OPEN_BRACKET:
        if (++members > MAX_MEMBERS) return true
    }
  }
  return false
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
