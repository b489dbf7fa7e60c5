import { useRef, useState } from 'preact/hooks'
import { usePoll } from './use-poll.js'

/** Refresh interval of answers in view. */
const REFRESH_MS = 60_000
/** Timers may be slightly early or late. */
const TOLERANCE_MS = 5_000

/** Increments every minute; immediately when the tab is shown after a longer time. */
export function useRound(): number {
  const [round, setRound] = useState(0)
  const begun = useRef(Date.now())
  usePoll(() => {
    // The clock may be set back.
    if (Math.abs(Date.now() - begun.current) < REFRESH_MS - TOLERANCE_MS) return
    begun.current = Date.now()
    setRound((before) => before + 1)
  }, REFRESH_MS)
  return round
}
