import { useEffect, useState } from 'preact/hooks'
import { currentTrouble, whenTroubleChanges } from '../api/service-status.js'

/** What keeps the service from answering, above whatever view there is, for as long as it does. */
export function Trouble() {
  const [trouble, setTrouble] = useState(currentTrouble())
  useEffect(() => whenTroubleChanges(() => setTrouble(currentTrouble())), [])
  if (trouble === null) return null
  return (
    <div role="alert" class="notice failure">
      <p>
        {trouble} This page goes on by itself once that is over; <a href="#/health">Health</a> says more.
      </p>
    </div>
  )
}
