/** The rows of a list at the last render, with their keys. */
export interface KeyedRows {
  rows: readonly string[]
  keys: readonly number[]
}

/**
 * Assigns keys to the rows of an editable list whose rows have no ids. A changed row keeps its key, and so do the
 * rows around an added or removed one. When rows swap places, keys stay in place.
 * @param rows each as a text that identifies its content
 */
export function keyRows(before: KeyedRows, rows: readonly string[]): KeyedRows {
  const max = Math.min(before.rows.length, rows.length)
  let head = 0
  while (head < max && before.rows[head] === rows[head]) head++
  let tail = 0
  while (tail < max - head && before.rows.at(-1 - tail) === rows.at(-1 - tail)) tail++
  const middle = rows.length - head - tail
  const kept = before.keys.slice(head, before.keys.length - tail).slice(0, middle)
  let next = Math.max(-1, ...before.keys) + 1
  const added = Array.from({ length: middle - kept.length }, () => next++)
  const last = before.keys.slice(before.keys.length - tail)
  return { rows, keys: [...before.keys.slice(0, head), ...kept, ...added, ...last] }
}
