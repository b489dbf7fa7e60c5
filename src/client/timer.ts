/** The longest that Node can wait, some 25 days. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** As `setTimeout`, which fires at once where the time is longer than it can wait, such as `Infinity`. */
export function startTimer(act: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(act, Math.min(ms, MAX_TIMER_MS))
}
