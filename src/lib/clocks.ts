/** A time by both clocks, ms. */
export interface Times {
  monotonic: number
  epoch: number
}

export function readClocks(): Times {
  return { monotonic: performance.now(), epoch: Date.now() }
}

/** The longer time of both clocks, ms: one stops while the host is suspended, and the other may be set back. */
export function measureTime(from: Times, to = readClocks()): number {
  return Math.max(to.monotonic - from.monotonic, to.epoch - from.epoch)
}
