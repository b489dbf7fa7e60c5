/** The longest that Node can wait, some 25 days. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** `setTimeout` with a capped time: Node fires at once if it is longer than a timer can wait, such as `Infinity`. */
export function startTimer(act: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(act, Math.min(ms, MAX_TIMER_MS))
}
