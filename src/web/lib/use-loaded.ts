import { useCallback, useEffect, useState } from 'preact/hooks'
import { checkStatus } from '../api/service-status.js'
import { useLatest } from './use-latest.js'
import { useRecovery } from './use-recovery.js'

/** What is being loaded: the last value stays while the next one is on its way. */
export interface Loaded<T> {
  value: T | null
  error: Error | null
  isLoading: boolean
  reload: () => void
}

/**
 * Loads something when the component appears and whenever `key` changes; what is no longer wanted is cancelled. What failed
 * as the service was not ready is loaded again once that is.
 * @param key names what is loaded; null loads nothing
 */
export function useLoaded<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, 'reload'>>({ value: null, error: null, isLoading: key !== null })
  const [round, setRound] = useState(0)
  const reload = useCallback(() => setRound((before) => before + 1), [])
  const latest = useLatest(load)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another round loads the same again
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
        // A part of the page is loaded by no call.
        if (error instanceof TypeError) checkStatus()
        setState({ value: null, error, isLoading: false })
      },
    )
    return () => stop.abort()
  }, [key, round, latest])
  useRecovery(state, reload)
  return { ...state, reload }
}
