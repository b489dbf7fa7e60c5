/** The longest delay of a Node timer, about 25 days. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Starts a timer with a capped delay, because Node fires immediately if a delay is too long, such as `Infinity`. */
export function startTimer(act: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(act, Math.min(ms, MAX_TIMER_MS))
}
