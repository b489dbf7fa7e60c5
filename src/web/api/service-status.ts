import { BASE_URL } from '../lib/base-url.js'

/** Nearly every call is answered by then. */
const DELAY_MS = 2_500
const CHECK_INTERVAL_MS = 3_000
/** The service says within 2 s that something is silent. */
const CHECK_TIMEOUT_MS = 6_000

const UNREACHABLE = 'The service cannot be reached.'
const STORE = 'The store, ClickHouse, does not answer: nothing can be read. Events are still accepted.'
const JOURNAL = 'The journal does not answer: no events are accepted.'

/** What is wrong with the service, for people; null if nothing is known. */
let outage: string | null = null
/** calls that are late */
let delayedCalls = 0
let isChecking = false
const changeListeners = new Set<() => void>()
const recoveryListeners = new Set<() => void>()

/** What is wrong with the service now, for people; null if nothing is known. */
export function getOutage(): string | null {
  return outage
}

/** @param listener called when `currentTrouble` changes @returns what ends that */
export function onOutageChange(listener: () => void): () => void {
  changeListeners.add(listener)
  return () => changeListeners.delete(listener)
}

/** @param listener called when a trouble is over @returns what ends that */
export function onRecovery(listener: () => void): () => void {
  recoveryListeners.add(listener)
  return () => recoveryListeners.delete(listener)
}

/** Makes a call. While it takes long, it is looked whether the service is ready. */
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

/** Looks whether the service is ready, and for as long as it is not, or calls are late, again. Nothing is asked by a hidden tab. */
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
    // What a proxy answers in the place of a service that is down.
    if (response.status === 502 || response.status === 504) return UNREACHABLE
    if (response.status !== 503) return null
    const { store, journal } = await response.json().catch(() => ({}))
    const parts = [store === 'unavailable' && STORE, journal === 'unavailable' && JOURNAL].filter((part) => part)
    return parts.length > 0 ? parts.join(' ') : UNREACHABLE
  } catch {
    return UNREACHABLE
  }
}

/** Ends early when the browser finds a network again, or the tab is shown. */
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
