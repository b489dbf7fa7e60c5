import { NULL, OPEN_BRACE, QUOTE } from '../json/bytes.js'
import { afterComma, anyName, space, string, valueEnd } from '../json/tokens.js'

/** A field that the contract does not define. */
export interface OtherField {
  /** the index of the event that has it; null: the body itself */
  event: number | null
  name: string
}

/** Limits on how much of a body is inspected. */
export interface LookLimits {
  fields: number
  events: number
  bytes: number
}

/**
 * Lists the fields of a batch, or of a single event, that are not `known` and not null. Fields beyond the limits are
 * left out.
 * @param raw a body that a scan has found to be valid: its names have no escapes
 * @param what what the body is; a single event has the index 0
 */
export function findOtherFields(
  raw: Buffer,
  what: 'batch' | 'event',
  known: (field: OtherField) => boolean,
  limits: LookLimits,
): OtherField[] {
  const found: OtherField[] = []
  const isOver = (at: number) => at > limits.bytes || found.length === limits.fields
  /** @returns the offset after the object, or at which the limits were reached */
  const look = (object: number, event: number | null): number => {
    let at = space(raw, object + 1)
    while (raw[at] === QUOTE && !isOver(at)) {
      const name = raw.toString('utf8', at + 1, string(raw, at + 1) - 1)
      const value = anyName(raw, at)
      if (event === null && name === 'events') {
        at = lookAtAll(value)
      } else {
        const field = { event, name }
        if (raw[value] !== NULL && !known(field)) found.push(field)
        at = valueEnd(raw, value)
      }
      at = afterComma(raw, at)
    }
    return at + 1
  }
  const lookAtAll = (array: number): number => {
    let at = space(raw, array + 1)
    for (let event = 0; raw[at] === OPEN_BRACE; event++) {
      if (isOver(at) || event === limits.events) return Number.POSITIVE_INFINITY
      at = afterComma(raw, look(at, event))
    }
    return at + 1
  }
  look(space(raw, 0), what === 'event' ? 0 : null)
  return found
}
