import type { OnReadOpts, Socket } from 'node:net'
import type { Fetch, FetchResponse } from '../../client/connection.js'
import type { Blocks } from './blocks.js'
import { chooseFraming, type Framing } from './framing.js'
import { type Head, HeadReader, openSocket, requestHead } from './http-head.js'

/** Blocks that are read before the reader asks for them. */
const READ_AHEAD = 2
/** A block with less room counts as full. A socket delivers about this much at a time. */
const MIN_ROOM_BYTES = 64 * 1024
/** How long a reader waits for a full block before it gets a partial one. */
const PATIENCE_MS = 500
const EMPTY = Buffer.alloc(0)

/**
 * A `fetch` for GET and HEAD that reads the socket into large blocks; each call opens a connection. Other clients
 * allocate a buffer for every 64 KiB of a response.
 *
 * The reader of a body may release its chunks.
 */
export function blockFetch(blocks: Blocks): Fetch {
  return (url, { method, headers, body, signal }) => {
    if (body !== undefined) throw new TypeError('a request with a body is not supported')
    return new BlockCall(blocks, method, signal).send(new URL(url), headers)
  }
}

class BlockCall {
  readonly #blocks: Blocks
  readonly #method: string
  readonly #signal: AbortSignal
  readonly #head = new HeadReader()
  #framing: Framing | null = null
  /** the block being filled, from #start on; earlier bytes were given out as a copy */
  #block: Buffer
  #start = 0
  #at = 0
  readonly #full: Buffer[] = []
  #failure: { error: unknown } | null = null
  #socket: Socket | null = null
  #onHead: (head: Head) => void = () => undefined
  /** wakes the reader when it can continue */
  #wake: () => void = () => undefined

  constructor(blocks: Blocks, method: string, signal: AbortSignal) {
    this.#blocks = blocks
    this.#method = method
    this.#signal = signal
    this.#block = blocks.take()
  }

  async send(url: URL, headers: Record<string, string>): Promise<FetchResponse> {
    const text = requestHead(this.#method, url, { ...headers, connection: 'close' })
    const head = new Promise<Head>((resolve, reject) => {
      this.#onHead = resolve
      this.#wake = () => this.#failure && reject(this.#failure.error)
    })
    this.#open(url).write(text, 'latin1')
    const { status, headers: found } = await head
    return {
      status,
      headers: found,
      text: () => this.#text(),
      body: this.#framing?.isOver && this.#at === 0 ? null : { getReader: () => ({ read: () => this.#read() }) },
    }
  }

  #open(url: URL): Socket {
    const onread: OnReadOpts = {
      buffer: () => this.#block.subarray(this.#at),
      callback: (bytes) => this.#take(bytes),
    }
    const socket = openSocket(url, { onread })
    this.#socket = socket
    const abort = () => socket.destroy(this.#signal.reason)
    if (this.#signal.aborted) abort()
    this.#signal.addEventListener('abort', abort)
    socket.on('error', (error) => this.#end(error))
    socket.on('close', () => {
      this.#signal.removeEventListener('abort', abort)
      this.#end(null)
    })
    // `onread` gets the bytes, so nothing flows here, but only a flowing socket emits its end.
    socket.resume()
    return socket
  }

  /**
   * Handles bytes that were read into the block.
   * @returns whether to read on
   */
  #take(bytes: number): boolean {
    try {
      const end = this.#at + bytes
      if (this.#framing) this.#at = this.#framing.take(this.#block, this.#at, end)
      else this.#takeHead(end)
    } catch (error) {
      this.#socket?.destroy(error as Error)
      return false
    }
    if (this.#framing?.isOver) {
      this.#socket?.destroy()
      this.#wake()
      return false
    }
    if (this.#block.length - this.#at >= MIN_ROOM_BYTES) {
      // A reader whose patience has run out takes the partial block.
      this.#wake()
      return true
    }
    this.#full.push(this.#block.subarray(this.#start, this.#at))
    this.#block = this.#blocks.take()
    this.#start = 0
    this.#at = 0
    this.#wake()
    return this.#full.length < READ_AHEAD
  }

  #takeHead(end: number): void {
    const found = this.#head.take(this.#block.subarray(0, end))
    if (!found) return
    const { head, bodyStart } = found
    this.#block.copyWithin(0, bodyStart, end)
    this.#framing = chooseFraming(this.#method, head.status, head.headers)
    this.#at = this.#framing.take(this.#block, 0, end - bodyStart)
    this.#onHead(head)
  }

  #end(error: Error | null): void {
    if (this.#failure || this.#framing?.isOver) return
    try {
      if (error) throw error
      if (!this.#framing) throw Object.assign(new Error('there was no response'), { code: 'ECONNRESET' })
      this.#framing.end()
    } catch (error) {
      this.#failure = { error }
    }
    this.#wake()
  }

  async #read(): Promise<{ done: boolean; value?: Uint8Array }> {
    if (!this.#hasMore()) await this.#untilFull()
    const full = this.#full.shift()
    if (full) {
      if (this.#full.length < READ_AHEAD) this.#socket?.resume()
      return { done: false, value: full }
    }
    if (this.#at > this.#start) {
      // Copied, because the socket may be reading into the rest of the block.
      const value = Buffer.from(this.#block.subarray(this.#start, this.#at))
      this.#start = this.#at
      return { done: false, value }
    }
    this.#blocks.release(this.#block)
    this.#block = EMPTY
    this.#start = 0
    this.#at = 0
    if (this.#failure) throw this.#failure.error
    return { done: true }
  }

  /** Whether the reader can continue, because there are bytes or the body is over. */
  #hasMore(): boolean {
    return this.#full.length > 0 || this.#failure !== null || this.#framing?.isOver === true
  }

  /** Resolves when a block is full or the body is over, or when PATIENCE_MS is over and there are some bytes. */
  #untilFull(): Promise<void> {
    return new Promise((resolve) => {
      let isLate = false
      const timer = setTimeout(() => {
        isLate = true
        this.#wake()
      }, PATIENCE_MS)
      this.#wake = () => {
        if (!this.#hasMore() && !(isLate && this.#at > this.#start)) return
        clearTimeout(timer)
        this.#wake = () => undefined
        resolve()
      }
    })
  }

  async #text(): Promise<string> {
    const chunks: Buffer[] = []
    for (;;) {
      const { done, value } = await this.#read()
      if (done) return Buffer.concat(chunks).toString()
      if (value) {
        chunks.push(Buffer.from(value))
        this.#blocks.release(value)
      }
    }
  }
}
