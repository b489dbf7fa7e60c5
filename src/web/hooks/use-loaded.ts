import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { checkStatus } from '../api/service-status.js'
import { useLatest } from './use-latest.js'
import { useRecovery } from './use-recovery.js'

/** State of a load. The previous value stays until the next one arrives. */
export interface Loaded<T> {
  value: T | null
  error: Error | null
  isLoading: boolean
  /** whether the value is of an earlier key, because that of the current one is still loading */
  isOld: boolean
  reload: () => void
}

/**
 * Loads a value on mount and whenever `key` changes, and cancels superseded loads. A load that failed because the
 * service was not ready is repeated once it is.
 * @param key identifies what to load; null loads nothing
 * @param refresh increment it to load again in the background. It has no effect while a load is running, because a load
 * that takes longer than the interval would never end. From the first refresh on, a failure keeps the last value of the
 * same key.
 */
export function useLoaded<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>, refresh = 0): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, 'reload' | 'isOld'>>({
    value: null,
    error: null,
    isLoading: key !== null,
  })
  const [round, setRound] = useState(0)
  const reload = useCallback(() => setRound((before) => before + 1), [])
  const latest = useLatest(load)
  const isRunning = useRef(false)
  const loadedKey = useRef<string | null>(null)
  const isRefreshed = useLatest(refresh > 0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: `round` triggers a reload
  useEffect(() => {
    if (key === null) {
      setState({ value: null, error: null, isLoading: false })
      return
    }
    const stop = new AbortController()
    isRunning.current = true
    setState(({ value }) => ({ value, error: null, isLoading: true }))
    latest.current(stop.signal).then(
      (value) => {
        if (stop.signal.aborted) return
        isRunning.current = false
        loadedKey.current = key
        setState({ value, error: null, isLoading: false })
      },
      (error) => {
        if (stop.signal.aborted) return
        isRunning.current = false
        // Loading a chunk of the page does not go through `call`, which would check the status.
        if (error instanceof TypeError) checkStatus()
        const keepsValue = isRefreshed.current && loadedKey.current === key
        setState(({ value }) => ({ value: keepsValue ? value : null, error, isLoading: false }))
      },
    )
    return () => {
      isRunning.current = false
      stop.abort()
    }
  }, [key, round, latest, isRefreshed])
  useEffect(() => {
    if (refresh > 0 && !isRunning.current) reload()
  }, [refresh, reload])
  useRecovery(state, reload)
  return { ...state, isOld: state.value !== null && loadedKey.current !== key, reload }
}
