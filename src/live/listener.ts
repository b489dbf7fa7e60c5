import { Readable } from 'node:stream'
import type { EventFilter } from '../store/event-pages.js'

/** Why the service ended a stream; its client may reconnect with the last id that it has. */
export type Ending = 'slow' | 'revoked' | 'closing'

export interface ListenerOptions {
  projectId: string
  wanted: EventFilter
  /** a listener for which more than this is waiting is too slow */
  bufferBytes: number
  /** whether the key with which the stream was opened is still valid */
  isAllowed: () => boolean
  /** called once, when the client is gone or the stream was ended */
  onEnd: (listener: Listener, ending: Ending | null) => void
}

/** The start of a stream: the pause before its client reconnects, ms, and a comment that shows that it is connected. */
const GREETING = Buffer.from('retry: 2000\n\n: connected\n\n')
const HEARTBEAT = Buffer.from(':\n\n')

/** A stream of Server-Sent Events to one client. Unread data waits here, in buffers that clients share. */
export class Listener extends Readable {
  readonly projectId: string
  readonly wanted: EventFilter
  /** identifies the filter; the same for listeners with the same filter */
  readonly filterKey: string
  readonly isAllowed: () => boolean
  /** until it follows the tail, it has its own buffers; then listeners with the same filter share them */
  isCatchingUp = false
  readonly #bufferBytes: number
  readonly #onEnd: ListenerOptions['onEnd']
  #ending: Ending | null = null
  #sentAt = performance.now()
  /** when the client last read a part of the pending data, or when that began to wait */
  #movedAt = performance.now()
  #drained: (() => void)[] = []

  constructor({ projectId, wanted, bufferBytes, isAllowed, onEnd }: ListenerOptions) {
    super({ highWaterMark: 1 })
    this.projectId = projectId
    this.wanted = wanted
    const { event, distinctId, sessionId, from, to } = wanted
    this.filterKey = JSON.stringify([projectId, event, distinctId, sessionId, from, to])
    this.isAllowed = isAllowed
    this.#bufferBytes = bufferBytes
    this.#onEnd = onEnd
    this.push(GREETING)
  }

  /** Whether the client has read everything, except for what fits the buffers of its connection. */
  get keepsUp(): boolean {
    return this.readableLength === 0
  }

  /** How long the client has not read any of its pending data, ms; 0 if nothing is pending. */
  get stalledMs(): number {
    return this.keepsUp ? 0 : performance.now() - this.#movedAt
  }

  /** Sends whole events, or disconnects a client that has too many unread events. */
  send(frames: Buffer): void {
    if (this.destroyed || this.#ending) return
    if (this.readableLength > this.#bufferBytes) {
      this.stop('slow')
      return
    }
    this.#sentAt = performance.now()
    if (this.keepsUp) this.#movedAt = this.#sentAt
    this.push(frames)
  }

  /** Sends a heartbeat if nothing was sent for this long, ms, so that proxies keep the connection open. */
  beat(idleMs: number): void {
    if (this.keepsUp && performance.now() - this.#sentAt >= idleMs) this.send(HEARTBEAT)
  }

  /**
   * Ends the stream. A slow client is disconnected, because a clean end would queue after its unread data; it discards
   * an event that it has received in part. When the service closes, a client has as long to read as the last requests
   * have.
   */
  stop(ending: Ending): void {
    if (this.destroyed || this.#ending) return
    this.#ending = ending
    if (ending !== 'closing' && !this.keepsUp) this.destroy()
    else this.push(null)
  }

  /** Resolves when everything was read, or the stream has ended. */
  async drained(): Promise<void> {
    if (this.keepsUp || this.destroyed) return
    await new Promise<void>((resolve) => this.#drained.push(resolve))
  }

  override _read(): void {}

  override read(size?: number): Buffer | null {
    const chunk: Buffer | null = super.read(size)
    if (chunk) this.#movedAt = performance.now()
    if (this.keepsUp) this.#release()
    return chunk
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#release()
    this.#onEnd(this, this.#ending)
    done(error)
  }

  #release(): void {
    const waiting = this.#drained
    this.#drained = []
    for (const resolve of waiting) resolve()
  }
}
