import { useCallback, useEffect, useState } from 'preact/hooks'
import { checkStatus } from '../api/service-status.js'
import { useLatest } from './use-latest.js'
import { useRecovery } from './use-recovery.js'

/** State of a load. The previous value stays until the next one arrives. */
export interface Loaded<T> {
  value: T | null
  error: Error | null
  isLoading: boolean
  reload: () => void
}

/**
 * Loads a value on mount and whenever `key` changes, and cancels superseded loads. A load that failed because the
 * service was not ready is repeated once it is.
 * @param key identifies what to load; null loads nothing
 */
export function useLoaded<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, 'reload'>>({ value: null, error: null, isLoading: key !== null })
  const [round, setRound] = useState(0)
  const reload = useCallback(() => setRound((before) => before + 1), [])
  const latest = useLatest(load)
  // biome-ignore lint/correctness/useExhaustiveDependencies: `round` triggers a reload
  useEffect(() => {
    if (key === null) {
      setState({ value: null, error: null, isLoading: false })
      return
    }
    const stop = new AbortController()
    setState(({ value }) => ({ value, error: null, isLoading: true }))
    latest.current(stop.signal).then(
      (value) => !stop.signal.aborted && setState({ value, error: null, isLoading: false }),
      (error) => {
        if (stop.signal.aborted) return
        // Loading a chunk of the page does not go through `call`, which would check the status.
        if (error instanceof TypeError) checkStatus()
        setState({ value: null, error, isLoading: false })
      },
    )
    return () => stop.abort()
  }, [key, round, latest])
  useRecovery(state, reload)
  return { ...state, reload }
}
