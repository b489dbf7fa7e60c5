/**
 * A place in the journal: 48 bits of milliseconds since 1970 and 16 bits of sequence number, in one unsigned 64-bit
 * integer. Positions only ever rise. If the clock jumps back, the sequence continues to count, and when it is used up,
 * the milliseconds do.
 */
export type Position = bigint

const SEQUENCE_BITS = 16n
const SEQUENCE_MASK = (1n << SEQUENCE_BITS) - 1n

/** The position before every entry; no entry has it. */
export const START: Position = 0n

export function toMilliseconds(position: Position): number {
  return Number(position >> SEQUENCE_BITS)
}

/** The last position before a time, epoch ms; START if there is none. */
export function positionAt(ms: number): Position {
  return ms > 0 ? (BigInt(ms) << SEQUENCE_BITS) - 1n : START
}

/** The first position that may follow `last` at clock time `nowMs`. */
export function nextPosition(last: Position, nowMs: number): Position {
  const now = BigInt(nowMs) << SEQUENCE_BITS
  return now > last ? now : last + 1n
}

/** Formats as the ID of a Redis stream: `<milliseconds>-<sequence>`. */
export function formatPosition(position: Position): string {
  return `${position >> SEQUENCE_BITS}-${position & SEQUENCE_MASK}`
}

export function parsePosition(text: string): Position {
  const dash = text.indexOf('-')
  return (BigInt(text.slice(0, dash)) << SEQUENCE_BITS) | BigInt(text.slice(dash + 1))
}

/** Whether a text is a position as `formatPosition` writes it. */
export function isPositionText(text: string): boolean {
  if (!/^\d{1,15}-\d{1,5}$/.test(text)) return false
  const position = parsePosition(text)
  return BigInt.asUintN(64, position) === position && formatPosition(position) === text
}

export function maxPosition(a: Position, b: Position): Position {
  return a > b ? a : b
}
