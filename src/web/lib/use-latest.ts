import { useRef } from 'preact/hooks'

/** The value of the last rendering, for what runs later and must not run again because of it. */
export function useLatest<T>(value: T): { readonly current: T } {
  const latest = useRef(value)
  latest.current = value
  return latest
}
