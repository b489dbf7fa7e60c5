import { MAX_BATCH } from '../contract/limits.js'
import { type Connection, idempotentPost } from './connection.js'
import { TallyhouseError } from './errors.js'
import { formatEvent, type JsonText, parseEvent, type TrackEvent } from './event.js'
import { QUEUE_RETRY, type RetryPolicy } from './retry.js'
import { startTimer } from './timer.js'

const MIB = 1024 * 1024

export interface EventQueueOptions {
  /** sends a batch as soon as so many events wait; default 100 */
  flushAt?: number
  /** the longest that an event waits for others, in milliseconds; default 1000 */
  flushIntervalMs?: number
  /** the most events that are queued or in flight; default 100 000. Further ones are dropped */
  maxQueueSize?: number
  /** the most bytes of these events, as JSON; default 64 MiB */
  maxQueueBytes?: number
  /**
   * the most bytes of a batch, unless a single event has more; default 4 MiB. The service accepts
   * 20 MiB by default
   */
  maxBatchBytes?: number
  /** how a batch is retried; default: 100 attempts within an hour */
  queueRetry?: Partial<RetryPolicy>
  /**
   * Called for each event that is dropped, with the reason, such as `queue_full`. The event can be
   * tracked again; its properties are a text if it has been in the queue. An error that the
   * function throws is an uncaught exception.
   */
  onDrop?: (event: TrackEvent, error: TallyhouseError) => void
}

interface QueuedEvent {
  text: JsonText
  bytes: number
  settled: Promise<void>
  resolve: () => void
  reject: (error: TallyhouseError) => void
}

/**
 * Sends events in batches, in the order in which they came. One batch is in flight at a time;
 * meanwhile the next one fills, so that a slow or unavailable service gets fewer and larger
 * requests.
 */
export class EventQueue {
  readonly #connection: Connection
  readonly #flushAt: number
  readonly #flushIntervalMs: number
  readonly #maxSize: number
  readonly #maxBytes: number
  readonly #maxBatchBytes: number
  readonly #onDrop: (event: TrackEvent, error: TallyhouseError) => void
  readonly #retry: RetryPolicy
  readonly #stop = new AbortController()
  #waiting: QueuedEvent[] = []
  /** how many of the waiting events are to be sent without waiting for others */
  #due = 0
  #inFlight: QueuedEvent[] = []
  #size = 0
  #bytes = 0
  #dropped = 0
  #timer: NodeJS.Timeout | null = null
  #isClosed = false

  constructor(connection: Connection, options: EventQueueOptions) {
    this.#connection = connection
    this.#flushAt = options.flushAt ?? 100
    this.#flushIntervalMs = options.flushIntervalMs ?? 1000
    this.#maxSize = options.maxQueueSize ?? 100_000
    this.#maxBytes = options.maxQueueBytes ?? 64 * MIB
    this.#maxBatchBytes = options.maxBatchBytes ?? 4 * MIB
    this.#onDrop = options.onDrop ?? (() => undefined)
    this.#retry = { ...QUEUE_RETRY, ...options.queueRetry }
  }

  /** events that are neither delivered nor dropped */
  get size(): number {
    return this.#size
  }

  /** events that were dropped so far */
  get dropped(): number {
    return this.#dropped
  }

  /**
   * Resolves once the service has acknowledged the event; rejects if it is dropped. The promise
   * may be ignored.
   */
  add(event: TrackEvent): Promise<void> {
    try {
      return this.#enqueue(formatEvent(event, Date.now()))
    } catch (error) {
      if (!(error instanceof TallyhouseError)) throw error
      this.#drop(event, error)
      return handled(Promise.reject(error))
    }
  }

  /**
   * Sends the waiting events at once.
   * @returns once every event that is in the queue now is settled; rejects if one of them was
   * dropped
   */
  async flush(): Promise<void> {
    const entries = [...this.#inFlight, ...this.#waiting]
    this.#sendAll()
    const failed = (await Promise.allSettled(entries.map(({ settled }) => settled))).find(
      ({ status }) => status === 'rejected',
    )
    if (failed?.status === 'rejected') throw failed.reason
  }

  /**
   * Accepts no more events and delivers the queued ones; those that are not delivered in time are
   * dropped as `closed`.
   * @throws as `flush`
   */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosed = true
    const timer = startTimer(() => this.#stop.abort(), timeoutMs)
    await this.flush().finally(() => clearTimeout(timer))
  }

  #enqueue(text: JsonText): Promise<void> {
    const bytes = Buffer.byteLength(text)
    if (this.#isClosed) throw new TallyhouseError('closed', 'The client is closed and accepts no more events.')
    if (this.#size >= this.#maxSize || this.#bytes + bytes > this.#maxBytes) {
      throw new TallyhouseError(
        'queue_full',
        'The queue is full: the service is unavailable, or slower than events are tracked.',
      )
    }
    const entry = newEntry(text, bytes)
    this.#waiting.push(entry)
    this.#size++
    this.#bytes += bytes
    if (this.#waiting.length >= this.#flushAt) this.#sendAll()
    else this.#timer ??= this.#startTimer()
    return entry.settled
  }

  #sendAll(): void {
    this.#due = this.#waiting.length
    if (this.#inFlight.length === 0) void this.#send()
  }

  async #send(): Promise<void> {
    while (this.#due > 0) {
      this.#inFlight = this.#takeBatch()
      this.#due = Math.max(0, this.#due - this.#inFlight.length)
      await this.#deliver(this.#inFlight)
      this.#inFlight = []
    }
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = this.#waiting.length > 0 ? this.#startTimer() : null
  }

  /**
   * The timer keeps the process alive, so that a process that ends by itself delivers its events
   * first.
   */
  #startTimer(): NodeJS.Timeout {
    return startTimer(() => this.#sendAll(), this.#flushIntervalMs)
  }

  #takeBatch(): QueuedEvent[] {
    let bytes = 0
    const tooLarge = this.#waiting.findIndex((entry, i) => {
      bytes += entry.bytes
      return i === MAX_BATCH || (i > 0 && bytes > this.#maxBatchBytes)
    })
    return this.#waiting.splice(0, tooLarge === -1 ? this.#waiting.length : tooLarge)
  }

  /**
   * Settles every entry of the batch. Refused entries are dropped and the others are delivered.
   */
  async #deliver(batch: QueuedEvent[]): Promise<void> {
    if (batch.length === 0) return
    try {
      const body = `{"events":[${batch.map(({ text }) => text).join(',')}]}`
      const call = idempotentPost('/public/track/batch', body)
      await this.#connection.call(call, { signal: this.#stop.signal }, this.#retry)
    } catch (error) {
      // Only TallyhouseErrors are expected, but an entry must be settled whatever happens.
      const reason = error instanceof TallyhouseError ? error : new TallyhouseError('network', String(error))
      return await this.#deliverRest(batch, this.#stop.signal.aborted ? closedInTransit(reason) : reason)
    }
    for (const entry of batch) {
      this.#leave(entry)
      entry.resolve()
    }
  }

  async #deliverRest(batch: QueuedEvent[], error: TallyhouseError): Promise<void> {
    const named = indexesIn(error)
    const others = batch.filter((_entry, i) => !named.has(i))
    const namesNone = others.length === batch.length
    // The refusal names no event, such as for the size of the body: bisect the batch until the bad
    // event is found.
    if (namesNone && (error.status === 413 || error.status === 400) && batch.length > 1) {
      const half = batch.length >> 1
      await this.#deliver(batch.slice(0, half))
      return await this.#deliver(batch.slice(half))
    }
    const refused = namesNone ? batch : batch.filter((_entry, i) => named.has(i))
    for (const entry of refused) {
      this.#leave(entry)
      this.#drop(parseEvent(entry.text), error)
      entry.reject(error)
    }
    if (!namesNone) await this.#deliver(others)
  }

  #leave({ bytes }: QueuedEvent): void {
    this.#size--
    this.#bytes -= bytes
  }

  #drop(event: TrackEvent, error: TallyhouseError): void {
    this.#dropped++
    // In a microtask of its own, as an error that it throws must not interrupt the queue.
    queueMicrotask(() => this.#onDrop(event, error))
  }
}

/** The events that a refusal names by their index in the batch. */
function indexesIn({ status, details }: TallyhouseError): Set<number> {
  if (status !== 400) return new Set()
  return new Set(details.flatMap(({ path }) => /^\/events\/(\d+)/.exec(path)?.[1] ?? []).map(Number))
}

function closedInTransit(cause: TallyhouseError): TallyhouseError {
  const message = 'The client was closed before the service responded; the event may have been stored anyway.'
  return new TallyhouseError('closed', message, { cause })
}

function newEntry(text: JsonText, bytes: number): QueuedEvent {
  let resolve: QueuedEvent['resolve'] = () => undefined
  let reject: QueuedEvent['reject'] = () => undefined
  const settled = new Promise<void>((...settle) => {
    ;[resolve, reject] = settle
  })
  return { text, bytes, settled: handled(settled), resolve, reject }
}

/** The same promise; if nobody awaits it, its rejection is not reported as unhandled. */
function handled(promise: Promise<void>): Promise<void> {
  promise.catch(() => undefined)
  return promise
}
