/** The rows of a list as they were shown last, and the key of each. */
export interface KeyedRows {
  rows: readonly string[]
  keys: readonly number[]
}

/**
 * Keys for the rows of a list that is edited, where a row has no id: a row that was changed keeps its key, and so do those
 * before and after one that was added or removed. Of rows that changed places, each takes the key of the place.
 * @param rows each as a text that tells it from the others
 */
export function keyRows(before: KeyedRows, rows: readonly string[]): KeyedRows {
  const most = Math.min(before.rows.length, rows.length)
  let head = 0
  while (head < most && before.rows[head] === rows[head]) head++
  let tail = 0
  while (tail < most - head && before.rows.at(-1 - tail) === rows.at(-1 - tail)) tail++
  const middle = rows.length - head - tail
  const kept = before.keys.slice(head, before.keys.length - tail).slice(0, middle)
  let next = Math.max(-1, ...before.keys) + 1
  const added = Array.from({ length: middle - kept.length }, () => next++)
  const last = before.keys.slice(before.keys.length - tail)
  return { rows, keys: [...before.keys.slice(0, head), ...kept, ...added, ...last] }
}
