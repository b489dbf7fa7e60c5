import { useEffect } from 'preact/hooks'
import { useLatest } from './use-latest.js'

/** Calls `act` periodically, but not while the tab is hidden; immediately when it is shown again. */
export function usePoll(act: () => void, everyMs: number): void {
  const latest = useLatest(act)
  useEffect(() => {
    const run = () => document.visibilityState === 'visible' && latest.current()
    const timer = setInterval(run, everyMs)
    document.addEventListener('visibilitychange', run)
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', run)
    }
  }, [everyMs, latest])
}
