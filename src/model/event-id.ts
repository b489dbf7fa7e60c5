import type { Position } from './position.js'

/**
 * An event's id encodes its place as a UUIDv7 (RFC 9562):
 *
 *     48 bits  milliseconds of the journal position     ┐ high half
 *      4 bits  version, 7                               │
 *     12 bits  upper bits of the position's sequence    ┘
 *      2 bits  variant, binary 10                       ┐ low half
 *      4 bits  lower bits of the sequence               │
 *     26 bits  index of the event within its entry      │
 *     32 bits  the journal's own number                 ┘
 *
 * So ids are unique, sort in the order of acceptance, and stay the same however often a block is retried.
 */
export interface EventPlace {
  position: Position
  /** index of the event within its journal entry, from 0 */
  index: number
  /** drawn at random when the journal was created */
  journalId: number
}

const INDEX_SHIFT = 32n
const SEQUENCE_LOW_SHIFT = 58n
const VARIANT = 0b10n << 62n
const VERSION = 0x7n << 12n
const INDEX_MASK = (1n << 26n) - 1n
const DIGITS = Buffer.from('0123456789abcdef')
const UUID_LENGTH = 36
/** Offsets in the text of the digits of the low half's upper 32 bits, from the last digit to the first. */
const INDEX_DIGITS = [27, 26, 25, 24, 22, 21, 20, 19]
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i

/** The two 64-bit halves of the id of an entry's first event; the index is added to the low half at bit 32. */
export function idHalves(position: Position, journalId: number): { high: bigint; low: bigint } {
  const milliseconds = position >> 16n
  const sequence = position & 0xffffn
  return {
    high: (milliseconds << 16n) | VERSION | (sequence >> 4n),
    low: VARIANT | ((sequence & 0xfn) << SEQUENCE_LOW_SHIFT) | BigInt(journalId),
  }
}

export function formatEventId(place: EventPlace): string {
  return eventIdFormatter(place.journalId)(place)
}

/**
 * Returns a `formatEventId` for the events of one journal. Within an entry it rewrites only the digits of the index. It
 * uses a buffer, because V8 validates a header several times as fast if its value is not a concatenated string.
 */
export function eventIdFormatter(journalId: number): (place: Pick<EventPlace, 'position' | 'index'>) => string {
  const text = Buffer.alloc(UUID_LENGTH)
  let known: Position | null = null
  let base = 0
  return ({ position, index }) => {
    if (position !== known) {
      known = position
      const { high, low } = idHalves(position, journalId)
      text.write(withHyphens(((high << 64n) | low).toString(16).padStart(32, '0')), 'latin1')
      base = Number(low >> INDEX_SHIFT)
    }
    let rest = base + index
    for (const at of INDEX_DIGITS) {
      text[at] = DIGITS[rest & 0xf] as number
      rest >>>= 4
    }
    return text.toString('latin1')
  }
}

/** @returns null if the text is not an id that this service can have assigned */
export function parseEventId(text: string): EventPlace | null {
  if (!UUID.test(text)) return null
  const bits = BigInt(`0x${text.replaceAll('-', '')}`)
  const high = bits >> 64n
  const sequence = ((high & 0xfffn) << 4n) | ((bits >> SEQUENCE_LOW_SHIFT) & 0xfn)
  return {
    position: ((high >> 16n) << 16n) | sequence,
    index: Number((bits >> INDEX_SHIFT) & INDEX_MASK),
    journalId: Number(bits & 0xffffffffn),
  }
}

/** The greatest possible id of an event at or before `position`, of any journal. */
export function lastIdAt(position: Position): string {
  return formatEventId({ position, index: Number(INDEX_MASK), journalId: 0xffffffff })
}

/** The smallest possible id of an event after `position`, of any journal. */
export function firstIdAfter(position: Position): string {
  return formatEventId({ position: position + 1n, index: 0, journalId: 0 })
}

/** The smallest id after `id`, whether or not an event has it. */
export function idAfter(id: string): string {
  const hex = (BigInt(`0x${id.replaceAll('-', '')}`) + 1n).toString(16).padStart(32, '0')
  return withHyphens(hex)
}

/** The canonical form of an id of 32 hexadecimal digits. */
export function withHyphens(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** An event's id as the number that ids are ordered by: `toUInt128` in SQL. */
export function idNumber(id: string): bigint {
  return BigInt(`0x${id.replaceAll('-', '')}`)
}
