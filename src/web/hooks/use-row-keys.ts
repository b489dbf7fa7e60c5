import { useRef } from 'preact/hooks'
import { type KeyedRows, keyRows } from '../lib/row-keys.js'

/** Keys for the rows of an editable list; see `keyRows`, whose tests need no types of a browser. */
export function useRowKeys(rows: readonly string[]): readonly number[] {
  const shown = useRef<KeyedRows>({ rows: [], keys: [] })
  shown.current = keyRows(shown.current, rows)
  return shown.current.keys
}
