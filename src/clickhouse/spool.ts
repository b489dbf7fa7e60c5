import { Readable } from 'node:stream'

/** How much may be buffered for slow clients. */
export interface SpoolLimits {
  /** bytes of one result */
  answerBytes: number
  /** bytes of all results of the process */
  totalBytes: number
}

export interface SpoolOptions {
  /**
   * called with the time of the client's last read (`performance.now()`) while the source waits for it, and with null
   * when it reads again
   */
  onStall(since: number | null): void
  /** whether the result has to yield the thread to others for a while */
  yields?(): boolean
}

/** Pause after each chunk of a result that has to yield, ms. */
const YIELD_MS = 10

/** The memory that all buffered results of a process share. */
export class SpoolMemory {
  readonly limits: SpoolLimits
  #held = 0

  constructor(limits: SpoolLimits) {
    this.limits = limits
  }

  /** Bytes in use. */
  get held(): number {
    return this.#held
  }

  add(bytes: number): void {
    this.#held += bytes
  }

  hasRoomFor(answerBytes: number): boolean {
    return answerBytes < this.limits.answerBytes && this.#held < this.limits.totalBytes
  }
}

/**
 * Streams a result without copying it while the client keeps up. For a slow client, buffers the rest in memory so that
 * the source can end. Pauses the source only when the buffer is full.
 */
export class Spool extends Readable {
  readonly #source: Readable
  readonly #memory: SpoolMemory
  readonly #onStall: SpoolOptions['onStall']
  readonly #yields: () => boolean
  #counted = 0
  /** whether the source is paused because the client does not keep up */
  #isPaused = false
  /** timer of the pause during which others get the thread */
  #yielding: NodeJS.Timeout | null = null

  constructor(source: Readable, memory: SpoolMemory, { onStall, yields = () => false }: SpoolOptions) {
    super()
    this.#source = source
    this.#memory = memory
    this.#onStall = onStall
    this.#yields = yields
    source.on('data', (chunk: Buffer) => this.#take(chunk))
    source.on('end', () => this.push(null))
    source.on('error', (error) => this.destroy(error))
    source.on('close', () => {
      if (!source.readableEnded) this.destroy(source.errored ?? new Error('the result ended before it was complete'))
    })
  }

  override _read(): void {}

  override read(size?: number): Buffer | null {
    const chunk: Buffer | null = super.read(size)
    if (this.#counted === 0 || chunk === null) return chunk
    this.#count(this.readableLength)
    if (!this.#isPaused) return chunk
    const hasRoom = 2 * this.readableLength < this.#memory.limits.answerBytes && this.#memory.hasRoomFor(0)
    if (hasRoom || this.readableLength === 0) {
      this.#isPaused = false
      this.#onStall(null)
      if (!this.#yielding) this.#source.resume()
    } else {
      this.#onStall(performance.now())
    }
    return chunk
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#count(0)
    if (this.#yielding) clearTimeout(this.#yielding)
    this.#source.destroy()
    done(error)
  }

  #take(chunk: Buffer): void {
    // Bytes added now would never be subtracted again.
    if (this.destroyed) return
    this.push(chunk)
    if (!this.#yielding && this.#yields()) this.#yield()
    const held = this.readableLength
    if (held === 0) return
    this.#count(held)
    if (this.#memory.hasRoomFor(held)) return
    this.#isPaused = true
    this.#source.pause()
    this.#onStall(performance.now())
  }

  #yield(): void {
    this.#source.pause()
    this.#yielding = setTimeout(() => {
      this.#yielding = null
      if (!this.#isPaused) this.#source.resume()
    }, YIELD_MS)
  }

  #count(held: number): void {
    this.#memory.add(held - this.#counted)
    this.#counted = held
  }
}
