import { useRef } from 'preact/hooks'

/** A ref to the latest value, for callbacks that must not rerun when it changes. */
export function useLatest<T>(value: T): { readonly current: T } {
  const latest = useRef(value)
  latest.current = value
  return latest
}
