import { readdir } from 'node:fs/promises'
import { type IntervalHistogram, monitorEventLoopDelay, performance } from 'node:perf_hooks'

const EVENT_LOOP_RESOLUTION_MS = 20
const NS_PER_SECOND = 1e9

/** What this process takes of its machine. */
export interface ProcessReading {
  userCpuSeconds: number
  systemCpuSeconds: number
  /** epoch seconds */
  startedAt: number
  residentBytes: number
  heapUsedBytes: number
  heapTotalBytes: number
  externalBytes: number
  /** null where the system does not tell */
  openFiles: number | null
  /** s; over the time since the reading before */
  eventLoopLag: { p50: number; p99: number; max: number }
}

/** Reads what the process takes; between readings only the lag of its event loop is watched. */
export class ProcessFigures {
  readonly #lag: IntervalHistogram = monitorEventLoopDelay({ resolution: EVENT_LOOP_RESOLUTION_MS })

  constructor() {
    this.#lag.enable()
  }

  async read(): Promise<ProcessReading> {
    const { user, system } = process.cpuUsage()
    const { rss, heapUsed, heapTotal, external } = process.memoryUsage()
    // A timer is never early: what is above the resolution is the lag.
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
