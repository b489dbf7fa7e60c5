import { MAX_BATCH } from '../contract/limits.js'
import { type Connection, repeatable } from './connection.js'
import { TallyhouseError } from './errors.js'
import { formatEvent, type JsonText, parseEvent, type TrackEvent } from './event.js'
import { QUEUE_RETRY, type RetryPolicy } from './retry.js'

const MIB = 1024 * 1024

export interface EventQueueOptions {
  /** so many waiting events are sent at once; 100 where absent */
  flushAt?: number
  /** how long an event waits for others, in milliseconds; 1000 where absent */
  flushIntervalMs?: number
  /** events that may wait or be under way; 100 000 where absent. Further ones are dropped */
  maxQueueSize?: number
  /** bytes that these events may have as JSON; 64 MiB where absent */
  maxQueueBytes?: number
  /** bytes of a batch, unless one event alone has more; 4 MiB where absent. The service takes 20 MiB by default */
  maxBatchBytes?: number
  /** how often and how patiently a batch is tried again; 100 times within an hour where absent */
  queueRetry?: Partial<RetryPolicy>
  /**
   * Told of each event that is given up, and why, such as `queue_full`. The event is one that can be tracked again;
   * its properties are a text where it had been in the queue. What the function throws is an uncaught exception.
   */
  onDrop?: (event: TrackEvent, error: TallyhouseError) => void
}

interface Entry {
  text: JsonText
  bytes: number
  settled: Promise<void>
  resolve: () => void
  reject: (error: TallyhouseError) => void
}

/**
 * Events on their way, in the order in which they came. One batch is under way at a time: while it is, the next one
 * fills, so that a service that is slow or away gets fewer and larger requests.
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
  #waiting: Entry[] = []
  /** of those that wait, how many need not wait for others any more */
  #due = 0
  #underWay: Entry[] = []
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

  /** Resolves when the service has the event; rejects where it is dropped. The caller may leave the promise alone. */
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
   * Sends what waits, without waiting for more.
   * @returns when each event that is in the queue now is delivered; rejects where one is dropped, after the others
   */
  async flush(): Promise<void> {
    const entries = [...this.#underWay, ...this.#waiting]
    this.#sendAll()
    const failed = (await Promise.allSettled(entries.map(({ settled }) => settled))).find(
      ({ status }) => status === 'rejected',
    )
    if (failed?.status === 'rejected') throw failed.reason
  }

  /**
   * Takes no more events and delivers those that are there; what is not delivered in time is dropped as `closed`.
   * @throws as `flush`
   */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosed = true
    const timer = setTimeout(() => this.#stop.abort(), timeoutMs)
    await this.flush().finally(() => clearTimeout(timer))
  }

  #enqueue(text: JsonText): Promise<void> {
    const bytes = Buffer.byteLength(text)
    if (this.#isClosed) throw new TallyhouseError('closed', 'The client is closed and takes no more events.')
    if (this.#size >= this.#maxSize || this.#bytes + bytes > this.#maxBytes) {
      throw new TallyhouseError('queue_full', 'The queue is full: the service is away, or slower than the events come.')
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
    if (this.#underWay.length === 0) void this.#send()
  }

  async #send(): Promise<void> {
    while (this.#due > 0) {
      this.#underWay = this.#takeBatch()
      this.#due = Math.max(0, this.#due - this.#underWay.length)
      await this.#deliver(this.#underWay)
      this.#underWay = []
    }
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = this.#waiting.length > 0 ? this.#startTimer() : null
  }

  /** It keeps the process alive: one that ends by itself delivers its events first. */
  #startTimer(): NodeJS.Timeout {
    return setTimeout(() => this.#sendAll(), this.#flushIntervalMs)
  }

  #takeBatch(): Entry[] {
    let bytes = 0
    const tooLarge = this.#waiting.findIndex((entry, i) => {
      bytes += entry.bytes
      return i === MAX_BATCH || (i > 0 && bytes > this.#maxBatchBytes)
    })
    return this.#waiting.splice(0, tooLarge === -1 ? this.#waiting.length : tooLarge)
  }

  /** Settles every entry of the batch. One that the service refuses does not take the others along. */
  async #deliver(batch: Entry[]): Promise<void> {
    if (batch.length === 0) return
    try {
      const body = `{"events":[${batch.map(({ text }) => text).join(',')}]}`
      const call = repeatable('/public/track/batch', body)
      await this.#connection.call(call, { signal: this.#stop.signal }, this.#retry)
    } catch (error) {
      // Nothing else is thrown, and an entry must be settled whatever happens.
      const reason = error instanceof TallyhouseError ? error : new TallyhouseError('network', String(error))
      return await this.#deliverRest(batch, this.#stop.signal.aborted ? closedInTransit(reason) : reason)
    }
    for (const entry of batch) {
      this.#leave(entry)
      entry.resolve()
    }
  }

  async #deliverRest(batch: Entry[], error: TallyhouseError): Promise<void> {
    const named = indexesIn(error)
    const others = batch.filter((_entry, i) => !named.has(i))
    const isNoneNamed = others.length === batch.length
    // The body as a whole is at fault, such as by its size; or one event of it in a way that has no name.
    if (isNoneNamed && (error.status === 413 || error.status === 400) && batch.length > 1) {
      const half = batch.length >> 1
      await this.#deliver(batch.slice(0, half))
      return await this.#deliver(batch.slice(half))
    }
    const refused = isNoneNamed ? batch : batch.filter((_entry, i) => named.has(i))
    for (const entry of refused) {
      this.#leave(entry)
      this.#drop(parseEvent(entry.text), error)
      entry.reject(error)
    }
    if (!isNoneNamed) await this.#deliver(others)
  }

  #leave({ bytes }: Entry): void {
    this.#size--
    this.#bytes -= bytes
  }

  #drop(event: TrackEvent, error: TallyhouseError): void {
    this.#dropped++
    // In a turn of its own, as what it throws must not leave the queue half-way.
    queueMicrotask(() => this.#onDrop(event, error))
  }
}

/** The events that a refusal names by their index in the batch. */
function indexesIn({ status, details }: TallyhouseError): Set<number> {
  if (status !== 400) return new Set()
  return new Set(details.flatMap(({ path }) => /^\/events\/(\d+)/.exec(path)?.[1] ?? []).map(Number))
}

function closedInTransit(cause: TallyhouseError): TallyhouseError {
  const message = 'The client was closed before the service answered; the event may have been stored all the same.'
  return new TallyhouseError('closed', message, { cause })
}

function newEntry(text: JsonText, bytes: number): Entry {
  let resolve: Entry['resolve'] = () => undefined
  let reject: Entry['reject'] = () => undefined
  const settled = new Promise<void>((...settle) => {
    ;[resolve, reject] = settle
  })
  return { text, bytes, settled: handled(settled), resolve, reject }
}

/** The same promise; that nobody waits for it is no unhandled rejection. */
function handled(promise: Promise<void>): Promise<void> {
  promise.catch(() => undefined)
  return promise
}
