import { stringEnd } from './tokens.js'

/**
 * Maximum weight of a JSON text, which estimates the cost of parsing it and keeping its values: 8 for a field of an
 * object, 1 for an element of an array. JSON.parse takes up to 0.4 µs for a field if all names differ, and 0.01 to 0.05
 * µs for an element (Node 20, one core of an AMD EPYC). Parsing blocks all other requests, so the limit allows about 10
 * ms of it.
 */
export const MAX_WEIGHT = 8 * 25_000
/** For a profile or a session, whose values are visited one by one. */
export const MAX_STATE_WEIGHT = 8 * 10_000
/** For a batch: its events mostly have the same field names, so a field takes 0.03 µs. */
export const MAX_BATCH_WEIGHT = 8 * 200_000
/** Maximum memory per unit of weight, after parsing. */
export const WEIGHT_BYTES = 32
/** The weight of a field's colon; the comma or brace before it adds 1. */
export const COLON_WEIGHT = 7

// Declared here, not in bytes.ts, which explains why.
const COLON = 0x3a
const COMMA = 0x2c
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const QUOTE = 0x22

/**
 * The weight of a JSON text. Stops as soon as it exceeds `max`, so a result above `max` is a lower bound. For bytes
 * that are not JSON, the result has no meaning.
 */
export function weigh(raw: Buffer, max: number): number {
  let weight = 0
  for (let at = 0; at < raw.length && weight <= max; at++) {
    switch (raw[at]) {
      case QUOTE:
        at = stringEnd(raw, at) - 1
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
