import { BASE } from '../lib/base-url.js'

/** Nearly every call is answered by then. */
const LATE_MS = 2_500
const LOOK_MS = 3_000
/** The service says within 2 s that something is silent. */
const LOOK_LIMIT_MS = 6_000

const UNREACHABLE = 'The service cannot be reached.'
const STORE = 'The store, ClickHouse, does not answer: nothing can be read. Events are still accepted.'
const JOURNAL = 'The journal does not answer: no events are accepted.'

/** What is wrong with the service, for people; null if nothing is known. */
let trouble: string | null = null
/** calls that are late */
let late = 0
let isLooking = false
const changed = new Set<() => void>()
const recovered = new Set<() => void>()

/** What is wrong with the service now, for people; null if nothing is known. */
export function currentTrouble(): string | null {
  return trouble
}

/** @param listener called when `currentTrouble` changes @returns what ends that */
export function whenTroubleChanges(listener: () => void): () => void {
  changed.add(listener)
  return () => changed.delete(listener)
}

/** @param listener called when a trouble is over @returns what ends that */
export function whenRecovered(listener: () => void): () => void {
  recovered.add(listener)
  return () => recovered.delete(listener)
}

/** Makes a call. While it takes long, it is looked whether the service is ready. */
export async function watched<T>(call: () => Promise<T>): Promise<T> {
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    late++
    lookForTrouble()
  }, LATE_MS)
  try {
    return await call()
  } finally {
    clearTimeout(timer)
    if (isLate) late--
  }
}

/** Looks whether the service is ready, and for as long as it is not, or calls are late, again. Nothing is asked by a hidden tab. */
export function lookForTrouble(): void {
  if (isLooking) return
  isLooking = true
  void lookOn().finally(() => {
    isLooking = false
  })
}

async function lookOn(): Promise<void> {
  do {
    if (document.visibilityState === 'visible') become(await look())
    if (trouble !== null || late > 0) await pause()
  } while (trouble !== null || late > 0)
}

function become(next: string | null): void {
  if (next === trouble) return
  const isOver = next === null
  trouble = next
  for (const listener of [...changed, ...(isOver ? recovered : [])]) listener()
}

async function look(): Promise<string | null> {
  try {
    const response = await fetch(`${BASE}/health/ready`, { signal: AbortSignal.timeout(LOOK_LIMIT_MS) })
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
    const timer = setTimeout(end, LOOK_MS)
    addEventListener('online', end, { signal: stop.signal })
    document.addEventListener('visibilitychange', end, { signal: stop.signal })
  })
}
