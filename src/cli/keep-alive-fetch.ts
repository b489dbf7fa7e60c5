import type { OnReadOpts, Socket } from 'node:net'
import type { Fetch, FetchResponse } from '../client/connection.js'
import { type Framing, framingOf, notHttp } from './framing.js'
import { checkBeginning, HEAD_END, type Head, openSocket, parseHead, requestHead } from './http-head.js'

/** What a connection reads at a time. Node would make a buffer of this size for each read. */
const READ_BYTES = 64 * 1024

/**
 * A `fetch` with keep-alive connections for small responses, which are read whole. Node's own copies the bodies of its
 * requests, and its HTTP client, too, takes several times the CPU time: most of what a command that sends batches does.
 */
export class HttpTransport {
  readonly #wires = new Set<Wire>()

  /** Does not follow redirects. */
  readonly fetch: Fetch = async (url, { method, headers, body, signal }) => {
    const to = new URL(url)
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    const length = bytes === undefined ? {} : { 'content-length': String(bytes.length) }
    signal.throwIfAborted()
    const head = requestHead(method, to, { ...headers, ...length })
    return await this.#wireTo(to).call(method, head, bytes, signal)
  }

  close(): void {
    for (const wire of this.#wires) wire.close()
  }

  #wireTo(url: URL): Wire {
    for (const wire of this.#wires) if (wire.isFree && wire.origin === url.origin) return wire
    const wire = new Wire(url, () => this.#wires.delete(wire))
    this.#wires.add(wire)
    return wire
  }
}

/** A call whose response is not complete. */
interface Waiting {
  method: string
  resolve(response: FetchResponse): void
  reject(error: unknown): void
}

/** A connection, on which there is one call at a time. */
class Wire {
  readonly origin: string
  readonly #socket: Socket
  #waiting: Waiting | null = null
  /** of the response, as much as there is of it */
  #text = ''
  #head: Head | null = null
  #framing: Framing | null = null
  #chunks: Buffer[] = []

  constructor(url: URL, onClose: () => void) {
    this.origin = url.origin
    const onread: OnReadOpts = {
      buffer: Buffer.allocUnsafeSlow(READ_BYTES),
      callback: (length, bytes) => this.#take(Buffer.from(bytes.subarray(0, length))),
    }
    this.#socket = openSocket(url, { noDelay: true, onread })
    // Nothing is read by it, but it ends with the connection.
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

  async call(method: string, head: string, body: Uint8Array | undefined, signal: AbortSignal): Promise<FetchResponse> {
    const socket = this.#socket
    const abort = () => socket.destroy(signal.reason)
    signal.addEventListener('abort', abort)
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting = { method, resolve, reject }
        socket.cork()
        socket.write(head, 'latin1')
        if (body !== undefined && body.length > 0) socket.write(body)
        socket.uncork()
      })
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  /** @returns whether to read on */
  #take(chunk: Buffer): boolean {
    try {
      const waiting = this.#waiting
      if (!waiting) throw notHttp('more than was asked for')
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

  /** @returns the bytes behind the head, if that is complete */
  #takeHead(chunk: Buffer, method: string): Buffer {
    const before = this.#text.length
    this.#text += chunk.toString('latin1')
    const headEnd = this.#text.indexOf(HEAD_END)
    if (headEnd === -1) {
      checkBeginning(this.#text)
      return chunk
    }
    const head = parseHead(this.#text.slice(0, headEnd))
    this.#text = ''
    const rest = chunk.subarray(headEnd + HEAD_END.length - before)
    // An interim response comes before the response.
    if (head.status < 200) return rest.length > 0 ? this.#takeHead(rest, method) : rest
    this.#head = head
    this.#framing = framingOf(method, head.status, head.headers)
    return rest
  }

  #finish(): void {
    const { status = 0, headers, isLasting } = this.#head as Head
    const [first = Buffer.alloc(0), ...more] = this.#chunks
    const bytes = more.length === 0 ? first : Buffer.concat([first, ...more])
    const waiting = this.#waiting
    this.#waiting = null
    this.#head = null
    this.#framing = null
    this.#chunks = []
    // A server that responds before it has read the request may not read the rest of it.
    if (!isLasting || this.#socket.writableLength > 0) this.#socket.destroy()
    waiting?.resolve({
      status,
      headers,
      text: async () => bytes.toString(),
      get body() {
        return new Response(Uint8Array.from(bytes)).body
      },
    })
  }

  #end(error: Error | null): void {
    const waiting = this.#waiting
    if (!waiting) return
    try {
      if (error) throw error
      if (!this.#framing) throw Object.assign(new Error('there was no response'), { code: 'ECONNRESET' })
      this.#framing.end()
      this.#finish()
    } catch (failure) {
      this.#waiting = null
      waiting.reject(failure)
    }
  }
}
