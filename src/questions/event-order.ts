/**
 * SQL that packs `timestamp`, `id` and a number (UInt64) of an event into one integer, so that events sort by time and
 * then id. ClickHouse collects and sorts integers in half the time of tuples. Times are not negative, so their bits
 * have the same order; adding 0 turns -0 into 0.
 */
export function packEvent(number: string): string {
  return `bitOr(bitOr(
    bitShiftLeft(toUInt256(reinterpretAsUInt64(timestamp + 0)), 192), bitShiftLeft(toUInt256(id), 64)), ${number})`
}

/** The time of a packed event. */
export function extractTime(event: string): string {
  return `reinterpretAsFloat64(toUInt64(bitShiftRight(${event}, 192)))`
}

/** The number of a packed event. */
export function extractNumber(event: string): string {
  return `toUInt64(${event})`
}

/** The times of an array of packed events. */
export function extractTimes(events: string): string {
  return `arrayMap(event -> ${extractTime('event')}, ${events})`
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
