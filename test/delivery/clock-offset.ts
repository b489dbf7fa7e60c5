import { spawnSync } from 'node:child_process'

/** The path of the faketime library, from `faketime` itself. */
const LIBRARY = (() => {
  if (process.platform !== 'linux') return null
  const { status, stdout } = spawnSync('faketime', ['-f', '+0s', 'printenv', 'LD_PRELOAD'], { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : null
})()

/** Whether processes can be started with a different clock. */
export const CAN_OFFSET_CLOCKS = LIBRARY !== null

/**
 * The environment of a process whose clock differs from this machine's; empty if that is not possible.
 * @param seconds by which it is ahead; negative: behind
 */
export function clockOffset(seconds: number): Record<string, string> {
  if (LIBRARY === null || seconds === 0) return {}
  return {
    // libc's malloc in front of jemalloc's, which asks for the time before the library can be asked.
    LD_PRELOAD: `${LIBRARY} libc.so.6`,
    FAKETIME: `${seconds > 0 ? '+' : ''}${seconds}s`,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  }
}
