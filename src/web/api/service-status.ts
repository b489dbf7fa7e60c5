import { BASE_URL } from '../lib/base-url.js'
import { firstEvent } from '../lib/first-event.js'

/** Both together are less than the 5 s within which the page reports an outage. */
const CHECK_INTERVAL_MS = 1_500
/** The service reports a silent dependency within 2 s. */
const CHECK_TIMEOUT_MS = 3_300

const UNREACHABLE = 'The service cannot be reached.'
const STORE = 'ClickHouse is not responding, so nothing can be read. Events are still accepted.'
const JOURNAL = 'The journal is not responding, so no events are accepted.'

/** Describes the current outage for the user; null if none is known. */
let outage: string | null = null
/** whether `watchStatus` is in effect */
let isWatched = false
let isChecking = false

/** Dispatches `change` when `getOutage` changes, `recovery` when an outage is over, and `check` before each check. */
export const serviceStatus = new EventTarget()

/** Describes the current outage for the user; null if none is known. */
export function getOutage(): string | null {
  return outage
}

/** Keeps the status up to date until the returned function is called, but not in a hidden tab. */
export function watchStatus(): () => void {
  isWatched = true
  checkStatus()
  return () => {
    isWatched = false
  }
}

/** Checks the status now, and repeats this during an outage. */
export function checkStatus(): void {
  serviceStatus.dispatchEvent(new Event('check'))
  if (isChecking) return
  isChecking = true
  void pollStatus().finally(() => {
    isChecking = false
  })
}

async function pollStatus(): Promise<void> {
  const isWanted = () => outage !== null || isWatched
  do {
    const next = performance.now() + CHECK_INTERVAL_MS
    if (document.visibilityState === 'visible') setOutage(await fetchOutage())
    if (isWanted()) await pause(next - performance.now())
  } while (isWanted())
}

function setOutage(next: string | null): void {
  if (next === outage) return
  outage = next
  serviceStatus.dispatchEvent(new Event('change'))
  if (next === null) serviceStatus.dispatchEvent(new Event('recovery'))
}

async function fetchOutage(): Promise<string | null> {
  try {
    const response = await fetch(`${BASE_URL}/health/ready`, { signal: AbortSignal.timeout(CHECK_TIMEOUT_MS) })
    // The statuses with which a proxy reports that the service is down.
    if (response.status === 502 || response.status === 504) return UNREACHABLE
    if (response.status !== 503) return null
    const { store, journal } = await response.json().catch(() => ({}))
    const parts = [store === 'unavailable' && STORE, journal === 'unavailable' && JOURNAL].filter((part) => part)
    return parts.length > 0 ? parts.join(' ') : UNREACHABLE
  } catch {
    return UNREACHABLE
  }
}

/** Ends early on `checkStatus`, when the network comes or goes, and when the tab is shown. */
async function pause(ms: number): Promise<void> {
  await firstEvent(
    [AbortSignal.timeout(Math.max(0, ms)), 'abort'],
    [serviceStatus, 'check'],
    [window, 'online'],
    [window, 'offline'],
    [document, 'visibilitychange'],
  )
}
