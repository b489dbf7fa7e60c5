import { readdir } from 'node:fs/promises'
import { type IntervalHistogram, monitorEventLoopDelay, performance } from 'node:perf_hooks'

const EVENT_LOOP_RESOLUTION_MS = 20
const NS_PER_SECOND = 1e9

/** The resources that this process uses. */
export interface ProcessReading {
  userCpuSeconds: number
  systemCpuSeconds: number
  /** epoch seconds */
  startedAt: number
  residentBytes: number
  heapUsedBytes: number
  heapTotalBytes: number
  externalBytes: number
  /** null on systems without /proc */
  openFiles: number | null
  /** lag in seconds since the previous reading */
  eventLoopLag: { p50: number; p99: number; max: number }
}

/**
 * Reads the resources of the process. Between readings it only samples the lag of the event loop.
 */
export class ProcessMonitor {
  readonly #lag: IntervalHistogram = monitorEventLoopDelay({ resolution: EVENT_LOOP_RESOLUTION_MS })

  constructor() {
    this.#lag.enable()
  }

  async read(): Promise<ProcessReading> {
    const { user, system } = process.cpuUsage()
    const { rss, heapUsed, heapTotal, external } = process.memoryUsage()
    // A timer never fires early: the lag is what exceeds the resolution.
    const lag = (ns: number) => Math.max(0, ns - EVENT_LOOP_RESOLUTION_MS * 1e6) / NS_PER_SECOND
    const eventLoopLag = {
      p50: lag(this.#lag.percentile(50)),
      p99: lag(this.#lag.percentile(99)),
      max: lag(this.#lag.max),
    }
    this.#lag.reset()
    return {
      userCpuSeconds: user / 1e6,
      systemCpuSeconds: system / 1e6,
      startedAt: performance.timeOrigin / 1000,
      residentBytes: rss,
      heapUsedBytes: heapUsed,
      heapTotalBytes: heapTotal,
      externalBytes: external,
      openFiles: await readdir('/proc/self/fd').then(
        ({ length }) => length,
        () => null,
      ),
      eventLoopLag,
    }
  }

  close(): void {
    this.#lag.disable()
  }
}
