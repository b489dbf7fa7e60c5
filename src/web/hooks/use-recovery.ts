import { useEffect, useRef } from 'preact/hooks'
import { isTransient } from '../api/call.js'
import { getOutage, serviceStatus } from '../api/service-status.js'
import { useLatest } from './use-latest.js'

/** The service may recover before its outage is noticed; persistent failures have another cause. */
const MAX_TRIES = 5
const FIRST_PAUSE_MS = 1_000

/**
 * Retries after a transient failure: when a known outage ends, otherwise a few times with increasing pauses.
 * @param state of the load that is retried; it has succeeded if it is neither loading nor failed
 */
export function useRecovery({ error, isLoading }: { error: Error | null; isLoading: boolean }, act: () => void): void {
  const latest = useLatest(act)
  const tries = useRef(0)
  const isWanted = error !== null && isTransient(error)
  useEffect(() => {
    if (error === null && !isLoading) tries.current = 0
  }, [error, isLoading])
  useEffect(() => {
    if (!isWanted) return
    const pause = FIRST_PAUSE_MS * 2 ** tries.current
    const timer = tries.current < MAX_TRIES ? setTimeout(tryAgain, pause) : undefined
    const stop = new AbortController()
    const { signal } = stop
    serviceStatus.addEventListener('recovery', () => latest.current(), { signal })
    function tryAgain() {
      if (document.visibilityState === 'hidden') {
        document.addEventListener('visibilitychange', tryAgain, { once: true, signal })
      } else if (getOutage() === null) {
        tries.current++
        latest.current()
      }
    }
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [isWanted, latest])
}
