import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { Log } from '../lib/log.js'
import { withTimeout } from '../lib/with-timeout.js'
import { mergeMetrics, type ProcessMetrics } from '../metrics/merge-metrics.js'
import type { Metric } from '../metrics/metric.js'

/** A worker that exits this soon after its start has failed to start. */
const SHORT_LIFE_MS = 5_000
const MAX_SHORT_LIVES = 5
const RESTART_PAUSE_MS = 500
/**
 * A worker that does not listen by then hangs: each request to Redis and ClickHouse during a start
 * times out after 30 s.
 */
const START_LIMIT_MS = 120_000
/**
 * The metrics of a process that takes longer to send them are left out. A scrape takes two such
 * limits at most, well within the 10 s that Prometheus waits.
 */
const METRICS_LIMIT_MS = 2_000

/**
 * Between primary and workers. A worker requests the metrics of all processes; the primary requests the metrics of one
 * worker.
 */
type Message =
  | { type: 'metrics-request'; id: number }
  /** `id` is the id of the request */
  | { type: 'metrics-response'; id: number; metrics: Metric[] }

type Pending = Map<number, (metrics: Metric[]) => void>

export interface WorkersOptions {
  count: number
  /** environment variables of a worker, in addition to those of this process; `place` is its number, from 1 */
  env: (place: number) => Record<string, string>
  log: Log
  /** reads the metrics of this process */
  metrics: () => Promise<Metric[]>
  /** called if workers repeatedly exit right after their start */
  onFatal: (error: Error) => void
  /** how long the first worker may take to listen, in ms; default 120 000 */
  startLimitMs?: number
}

/**
 * The processes that serve one port; connections are distributed in turn. A process that exits
 * is replaced.
 */
export class Workers {
  readonly #options: WorkersOptions
  readonly #places = new WeakMap<Worker, number>()
  readonly #pending: Pending = new Map()
  #requests = 0
  #shortLives = 0
  #isClosing = false

  constructor(options: WorkersOptions) {
    this.#options = options
  }

  /**
   * Resolves with the address that all workers share, once the first one listens.
   * @throws Error if none listens in time; all are killed
   */
  async start(): Promise<AddressInfo> {
    const { count, startLimitMs = START_LIMIT_MS } = this.#options
    for (let place = 1; place <= count; place++) this.#fork(place)
    const signal = AbortSignal.timeout(startLimitMs)
    const listening = await once(cluster, 'listening', { signal }).catch(() => null)
    if (!listening) {
      this.#isClosing = true
      // A worker that hangs may not handle SIGTERM.
      for (const worker of living()) worker.process.kill('SIGKILL')
      const seconds = startLimitMs / 1000
      throw new Error(`no worker was listening after ${seconds} s; see the log. Start the service again.`)
    }
    const [, { address, port, addressType }] = listening
    return { address: address ?? '::', port, family: addressType === 6 ? 'IPv6' : 'IPv4' }
  }

  /** Lets the workers finish their requests, and resolves once all have exited. */
  async close(): Promise<void> {
    this.#isClosing = true
    await Promise.all(
      living().map(async (worker) => {
        const ended = once(worker, 'exit')
        worker.process.kill('SIGTERM')
        await ended
      }),
    )
  }

  /**
   * @param place number of the worker; its replacement gets the same number, and with it the same
   *   name in metrics
   */
  #fork(place: number): void {
    const startedAt = performance.now()
    const worker = cluster.fork(this.#options.env(place))
    this.#places.set(worker, place)
    worker.once('exit', (code, signal) => {
      this.#shortLives = performance.now() - startedAt < SHORT_LIFE_MS ? this.#shortLives + 1 : 0
      this.#replace(place, signal ?? code)
    })
    worker.on('message', (message: Message) => this.#receive(worker, message))
  }

  #replace(place: number, reason: string | number): void {
    if (this.#isClosing) return
    if (this.#shortLives > MAX_SHORT_LIVES) {
      this.#options.onFatal(new Error(`workers keep exiting right after their start: ${reason}`))
      return
    }
    this.#options.log.error({ worker: place, reason }, 'a worker exited; replacing it')
    setTimeout(() => {
      if (!this.#isClosing) this.#fork(place)
    }, RESTART_PAUSE_MS)
  }

  #receive(worker: Worker, message: Message): void {
    if (message.type === 'metrics-response') {
      this.#pending.get(message.id)?.(message.metrics)
      return
    }
    this.#readAll()
      .then((metrics) => send(worker, { type: 'metrics-response', id: message.id, metrics }))
      .catch((error) => this.#options.log.warn({ err: error }, 'the metrics of the workers could not be read'))
  }

  async #readAll(): Promise<Metric[]> {
    const writer = this.#readOwn().then((metrics): ProcessMetrics => ['writer', metrics])
    const workers = living().map(async (worker): Promise<ProcessMetrics> => {
      return [`worker-${this.#places.get(worker)}`, await this.#read(worker)]
    })
    return mergeMetrics(await Promise.all([writer, ...workers]))
  }

  async #readOwn(): Promise<Metric[]> {
    try {
      return await withTimeout(this.#options.metrics(), METRICS_LIMIT_MS)
    } catch (error) {
      this.#options.log.warn({ err: error }, 'the metrics of the primary process could not be read')
      return []
    }
  }

  async #read(worker: Worker): Promise<Metric[]> {
    const id = ++this.#requests
    try {
      return await response(this.#pending, id, () => send(worker, { type: 'metrics-request', id }))
    } catch {
      return []
    }
  }
}

/** The worker's end of the channel to the primary. Node ends a worker whose primary is gone. */
export class WorkerChannel {
  readonly #pending: Pending = new Map()
  #requests = 0

  /** @param metrics reads the metrics of this process */
  constructor(metrics: () => Promise<Metric[]>, log: Log) {
    process.on('message', (message: Message) => {
      if (message.type === 'metrics-response') {
        this.#pending.get(message.id)?.(message.metrics)
        return
      }
      metrics()
        .then((metrics) => sendToPrimary({ type: 'metrics-response', id: message.id, metrics }))
        .catch((error) => log.warn({ err: error }, 'the metrics of this worker could not be read'))
    })
  }

  /** The metrics of all processes. @throws Error if the primary does not respond in time */
  collectMetrics(): Promise<Metric[]> {
    const id = ++this.#requests
    // The primary itself waits for each worker for one limit.
    const limitMs = 2 * METRICS_LIMIT_MS
    return response(this.#pending, id, () => sendToPrimary({ type: 'metrics-request', id }), limitMs)
  }
}

function living(): Worker[] {
  return Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined)
}

/**
 * Sends a request, and resolves with the metrics of its response.
 * @throws Error if none comes in time
 */
async function response(
  pending: Pending,
  id: number,
  request: () => void,
  limitMs = METRICS_LIMIT_MS,
): Promise<Metric[]> {
  try {
    const metrics = new Promise<Metric[]>((resolve) => {
      pending.set(id, resolve)
      request()
    })
    return await withTimeout(metrics, limitMs)
  } finally {
    pending.delete(id)
  }
}

function send(worker: Worker, message: Message): void {
  // A worker that is about to exit receives nothing more.
  if (worker.isConnected()) worker.send(message, () => undefined)
}

function sendToPrimary(message: Message): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined)
}
