import { useEffect, useState } from 'preact/hooks'
import { getOutage, onOutageChange } from '../api/service-status.js'
import * as noticeStyles from './notice.module.css'

/** Shown above every view during an outage. */
export function OutageBanner() {
  const [outage, setTrouble] = useState(getOutage())
  useEffect(() => onOutageChange(() => setTrouble(getOutage())), [])
  if (outage === null) return null
  return (
    <div role="alert" class={`${noticeStyles.notice} ${noticeStyles.failure}`}>
      <p>
        {outage} This page goes on by itself once that is over; <a href="#/health">Health</a> says more.
      </p>
    </div>
  )
}
