import { BASE_URL } from '../lib/base-url.js'

/** Nearly every call is answered within this time. */
const DELAY_MS = 2_500
const CHECK_INTERVAL_MS = 3_000
/** The service reports a silent dependency within 2 s. */
const CHECK_TIMEOUT_MS = 6_000

const UNREACHABLE = 'The service cannot be reached.'
const STORE = 'The store, ClickHouse, does not answer: nothing can be read. Events are still accepted.'
const JOURNAL = 'The journal does not answer: no events are accepted.'

/** Describes the current outage for the user; null if none is known. */
let outage: string | null = null
/** number of calls that take longer than `DELAY_MS` */
let delayedCalls = 0
let isChecking = false
const changeListeners = new Set<() => void>()
const recoveryListeners = new Set<() => void>()

/** Describes the current outage for the user; null if none is known. */
export function getOutage(): string | null {
  return outage
}

/** @param listener called when `getOutage` changes @returns a function that unsubscribes */
export function onOutageChange(listener: () => void): () => void {
  changeListeners.add(listener)
  return () => changeListeners.delete(listener)
}

/** @param listener called when an outage is over @returns a function that unsubscribes */
export function onRecovery(listener: () => void): () => void {
  recoveryListeners.add(listener)
  return () => recoveryListeners.delete(listener)
}

/** Makes a call, and checks whether the service is ready if the call takes long. */
export async function watchForDelay<T>(call: () => Promise<T>): Promise<T> {
  let isDelayed = false
  const timer = setTimeout(() => {
    isDelayed = true
    delayedCalls++
    checkStatus()
  }, DELAY_MS)
  try {
    return await call()
  } finally {
    clearTimeout(timer)
    if (isDelayed) delayedCalls--
  }
}

/**
 * Checks whether the service is ready, and repeats this during an outage or while calls are delayed. A hidden tab
 * sends nothing.
 */
export function checkStatus(): void {
  if (isChecking) return
  isChecking = true
  void pollStatus().finally(() => {
    isChecking = false
  })
}

async function pollStatus(): Promise<void> {
  do {
    if (document.visibilityState === 'visible') setOutage(await fetchOutage())
    if (outage !== null || delayedCalls > 0) await pause()
  } while (outage !== null || delayedCalls > 0)
}

function setOutage(next: string | null): void {
  if (next === outage) return
  const isOver = next === null
  outage = next
  for (const listener of [...changeListeners, ...(isOver ? recoveryListeners : [])]) listener()
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

/** Ends early when the network is back or the tab is shown. */
function pause(): Promise<void> {
  return new Promise((resolve) => {
    const stop = new AbortController()
    const end = () => {
      clearTimeout(timer)
      stop.abort()
      resolve()
    }
    const timer = setTimeout(end, CHECK_INTERVAL_MS)
    addEventListener('online', end, { signal: stop.signal })
    document.addEventListener('visibilitychange', end, { signal: stop.signal })
  })
}
