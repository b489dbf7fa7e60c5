import { useEffect, useState } from 'preact/hooks'
import { getOutage, serviceStatus, watchStatus } from '../api/service-status.js'
import * as noticeStyles from './notice.module.css'
import * as styles from './outage-banner.module.css'

/** Shown above every view during an outage, also when the view is scrolled. */
export function OutageBanner() {
  const [outage, setOutage] = useState(getOutage())
  useEffect(() => {
    const update = () => setOutage(getOutage())
    serviceStatus.addEventListener('change', update)
    return () => serviceStatus.removeEventListener('change', update)
  }, [])
  useEffect(watchStatus, [])
  if (outage === null) return null
  return (
    <div role="alert" class={`${noticeStyles.notice} ${noticeStyles.failure} ${styles.banner}`}>
      <p>
        {outage} It reconnects automatically. See <a href="#/health">Health</a>.
      </p>
    </div>
  )
}
