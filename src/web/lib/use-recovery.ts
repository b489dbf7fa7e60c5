import { useEffect, useRef } from 'preact/hooks'
import { isTransient } from '../api/call.js'
import { getOutage, onRecovery } from '../api/service-status.js'
import { useLatest } from './use-latest.js'

/** The service may be back before anybody has seen that it was not; what is refused again and again has another reason. */
const MAX_TRIES = 5
const FIRST_PAUSE_MS = 1_000

/**
 * Acts again after a failure that passes by itself: once the service is ready, if it is known not to be, and else after
 * longer and longer pauses, a few times.
 * @param state of what is acted for; neither loading nor failed is a success
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
    const forget = onRecovery(() => latest.current())
    const pause = FIRST_PAUSE_MS * 2 ** tries.current
    const timer = tries.current < MAX_TRIES ? setTimeout(tryAgain, pause) : undefined
    const hidden = new AbortController()
    function tryAgain() {
      if (document.visibilityState === 'hidden') {
        document.addEventListener('visibilitychange', tryAgain, { once: true, signal: hidden.signal })
      } else if (getOutage() === null) {
        tries.current++
        latest.current()
      }
    }
    return () => {
      clearTimeout(timer)
      hidden.abort()
      forget()
    }
  }, [isWanted, latest])
}
