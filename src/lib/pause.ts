import { setTimeout as wait } from 'node:timers/promises'

/**
 * Waits until the time has passed or the signal aborts. Does not keep the process running.
 * @returns false if the signal aborted
 */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  await wait(ms, undefined, { signal, ref: false }).catch(() => undefined)
  return !signal.aborted
}
