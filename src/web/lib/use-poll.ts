import { useEffect, useRef } from 'preact/hooks'

/** Calls `act` now and then, but not while the tab is hidden; once it is shown again, at once. */
export function usePoll(act: () => void, everyMs: number): void {
  const latest = useRef(act)
  latest.current = act
  useEffect(() => {
    const run = () => document.visibilityState === 'visible' && latest.current()
    const timer = setInterval(run, everyMs)
    document.addEventListener('visibilitychange', run)
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', run)
    }
  }, [everyMs])
}
