/**
 * This folder holds the HTTP/1.1 client of commands that transfer a lot of data: `HttpTransport` for many small
 * responses (imports, the demo), `blockFetch` for large ones (exports). On an embedded service with two cores,
 * undici's `Pool` made imports of a million events 18 % slower, with pipelining 32 %, and exports to a file 27 to 40
 * %. It follows no redirects, decompresses nothing, and speaks no HTTP/2. See
 * docs/decisions/013-command-http-client.md.
 */

import type { OnReadOpts, Socket } from 'node:net'
import type { Fetch, FetchResponse } from '../../client/connection.js'
import { chooseFraming, type Framing, notHttp } from './framing.js'
import { type Head, HeadReader, openSocket, requestHead } from './http-head.js'

/** Read buffer of a connection. Node would allocate one of this size for each read. */
const READ_BYTES = 64 * 1024
const NOTHING = Buffer.alloc(0)

/** A `fetch` with keep-alive connections, for small responses, which are buffered. */
export class HttpTransport {
  readonly #wires = new Set<Wire>()
  /** of the last call, cached because the next one usually has the same */
  #address = { text: '', url: new URL('http://localhost') }

  /** Does not follow redirects. */
  readonly fetch: Fetch = async (text, { method, headers, body, signal }) => {
    if (text !== this.#address.text) this.#address = { text, url: new URL(text) }
    const { url } = this.#address
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    signal.throwIfAborted()
    const head = requestHead(method, url, headers, bytes?.length)
    return await this.#getWire(url).call({ method, head, bytes, signal })
  }

  close(): void {
    for (const wire of this.#wires) wire.close()
  }

  #getWire(url: URL): Wire {
    for (const wire of this.#wires) if (wire.isFree && wire.origin === url.origin) return wire
    const wire = new Wire(url, () => this.#wires.delete(wire))
    this.#wires.add(wire)
    return wire
  }
}

interface Request {
  method: string
  head: string
  bytes: Uint8Array | undefined
  signal: AbortSignal
}

/** A request whose response is not complete yet. */
interface WaitingRequest extends Request {
  resolve(response: FetchResponse): void
  reject(error: unknown): void
}

/** A connection for one call at a time. */
class Wire {
  readonly origin: string
  readonly #socket: Socket
  #waiting: WaitingRequest | null = null
  readonly #reader = new HeadReader()
  #head: Head | null = null
  #framing: Framing | null = null
  #chunks: Buffer[] = []
  readonly #abort = () => void this.#socket.destroy(this.#waiting?.signal.reason)

  constructor(url: URL, onClose: () => void) {
    this.origin = url.origin
    const onread: OnReadOpts = {
      buffer: Buffer.allocUnsafeSlow(READ_BYTES),
      callback: (length, bytes) => this.#take(Buffer.from(bytes.subarray(0, length))),
    }
    this.#socket = openSocket(url, { noDelay: true, onread })
    // `onread` gets the bytes, so nothing flows here, but only a flowing socket emits its end.
    this.#socket.resume()
    this.#socket.on('error', (error) => this.#end(error))
    this.#socket.on('close', () => {
      onClose()
      this.#end(null)
    })
  }

  get isFree(): boolean {
    return this.#waiting === null && this.#socket.writable
  }

  close(): void {
    this.#socket.destroy()
  }

  async call(request: Request): Promise<FetchResponse> {
    const socket = this.#socket
    return await new Promise((resolve, reject) => {
      const { head, bytes, signal } = request
      this.#waiting = { ...request, resolve, reject }
      signal.addEventListener('abort', this.#abort)
      socket.cork()
      socket.write(head, 'latin1')
      if (bytes !== undefined && bytes.length > 0) socket.write(bytes)
      socket.uncork()
    })
  }

  /** @returns whether to read on */
  #take(chunk: Buffer): boolean {
    try {
      const waiting = this.#waiting
      if (!waiting) throw notHttp('more than was requested')
      const bytes = this.#framing ? chunk : this.#takeHead(chunk, waiting.method)
      if (!this.#framing) return true
      if (bytes.length > 0) this.#chunks.push(bytes.subarray(0, this.#framing.take(bytes, 0, bytes.length)))
      if (this.#framing.isOver) this.#finish()
      return true
    } catch (error) {
      this.#socket.destroy(error as Error)
      return false
    }
  }

  /** @returns the bytes after the head, if it is complete */
  #takeHead(chunk: Buffer, method: string): Buffer {
    const found = this.#reader.take(chunk)
    if (!found) return chunk
    const { head, bodyStart } = found
    this.#head = head
    this.#framing = chooseFraming(method, head.status, head.headers)
    return chunk.subarray(bodyStart)
  }

  #finish(): void {
    const { status, headers, isLasting } = this.#head as Head
    const [first = NOTHING, ...more] = this.#chunks
    const bytes = more.length === 0 ? first : Buffer.concat([first, ...more])
    // A server that responds before it has read the request may not read the rest of it.
    const isUsable = isLasting && this.#socket.writableLength === 0
    this.#takeWaiting()?.resolve({
      status,
      headers,
      text: async () => bytes.toString(),
      // Made on demand, because it loads all of Node's fetch.
      get body() {
        return new Response(Uint8Array.from(bytes)).body
      },
    })
    if (!isUsable) this.#socket.destroy()
  }

  #end(error: Error | null): void {
    if (!this.#waiting) return
    try {
      if (error) throw error
      if (!this.#framing) throw Object.assign(new Error('there was no response'), { code: 'ECONNRESET' })
      this.#framing.end()
      this.#finish()
    } catch (failure) {
      this.#takeWaiting()?.reject(failure)
    }
  }

  /**
   * Frees the connection for the next request.
   * @returns the request that it was busy with
   */
  #takeWaiting(): WaitingRequest | null {
    const waiting = this.#waiting
    waiting?.signal.removeEventListener('abort', this.#abort)
    this.#waiting = null
    this.#head = null
    this.#framing = null
    this.#chunks = []
    return waiting
  }
}
