import type { Statement } from './statement.js'

/**
 * The sort key of packed events: `time` alone, or time and then `id`, which is the order of events. Ids are half of the
 * data read, so a statement that packs only times fails with `failForTie` if the ids would make a difference.
 */
export type Order = 'time' | 'id'

/**
 * SQL that packs `timestamp`, `id` and a number (UInt64) of an event into one integer, so that events sort by time and
 * then id. ClickHouse collects and sorts integers in half the time of tuples. Times are not negative, so their bits
 * have the same order; adding 0 turns -0 into 0.
 */
export function packEvent(number: string, order: Order = 'id'): string {
  const time = 'reinterpretAsUInt64(timestamp + 0)'
  if (order === 'time') return `bitOr(bitShiftLeft(toUInt128(${time}), 64), ${number})`
  return `bitOr(bitOr(
    bitShiftLeft(toUInt256(${time}), 192), bitShiftLeft(toUInt256(id), 64)), ${number})`
}

/** The time of a packed event. */
export function extractTime(event: string, order: Order = 'id'): string {
  return `reinterpretAsFloat64(${extractTimeBits(event, order)})`
}

function extractTimeBits(event: string, order: Order): string {
  return `toUInt64(bitShiftRight(${event}, ${order === 'time' ? 64 : 192}))`
}

/** SQL for whether two packed times are the same. */
export function areSimultaneous(one: string, other: string): string {
  return `${extractTimeBits(one, 'time')} = ${extractTimeBits(other, 'time')}`
}

/** SQL that is 0, or fails the query with AMBIGUOUS_IDENTIFIER if its answer depends on the ids of simultaneous events. */
export function failForTie(statement: Statement, isTie: string): string {
  statement.set({ allow_custom_error_code_in_throwif: 1 })
  return `throwIf(${isTie}, 'simultaneous events have to be ordered', toInt16(${TIE_CODE}))`
}

/** The code of AMBIGUOUS_IDENTIFIER; no other failure of our statements has it. */
const TIE_CODE = 207

/** The number of a packed event. */
export function extractNumber(event: string): string {
  return `toUInt64(${event})`
}

/** The times of an array of packed events. */
export function extractTimes(events: string, order: Order = 'id'): string {
  return `arrayMap(event -> ${extractTime('event', order)}, ${events})`
}

/** The numbers of an array of packed events. */
export function extractNumbers(events: string): string {
  return `arrayMap(event -> ${extractNumber('event')}, ${events})`
}

/**
 * The elements of an array at the positions in another array. `arrayMap` with the array in its lambda would copy all of
 * it for each position.
 */
export function pickElements(array: string, positions: string): string {
  return `arrayReduceInRanges('any', arrayMap(position -> (position, 1), ${positions}), ${array})`
}
