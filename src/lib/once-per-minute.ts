const MINUTE_MS = 60_000

/** Calls at most once a minute, for a warning whose cause may come thousands of times. */
export function oncePerMinute<Arguments extends unknown[]>(
  call: (...args: Arguments) => void,
): (...args: Arguments) => void {
  let silentUntil = 0
  return (...args) => {
    if (Date.now() < silentUntil) return
    silentUntil = Date.now() + MINUTE_MS
    call(...args)
  }
}
