import { useEffect, useRef } from 'preact/hooks'
import { whenRecovered } from '../api/trouble.js'

/** Acts once the service is ready again, if it was not. @param isWanted whether there is something to do then */
export function useRecovery(isWanted: boolean, act: () => void): void {
  const latest = useRef(act)
  latest.current = act
  useEffect(() => (isWanted ? whenRecovered(() => latest.current()) : undefined), [isWanted])
}
