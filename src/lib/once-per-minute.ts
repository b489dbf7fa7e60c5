const MINUTE_MS = 60_000

/** Returns a function that runs at most once a minute, for warnings that may have thousands of causes. */
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
