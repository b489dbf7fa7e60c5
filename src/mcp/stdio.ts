import { once } from 'node:events'
import { Readable, type Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { setImmediate } from 'node:timers/promises'
import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio'
import { openMcpServer, type ServerOptions } from './server.js'

export interface StdioOptions extends ServerOptions {
  stdin: Readable
  stdout: Writable
  /** aborting it ends the connection and drops the calls in flight */
  signal: AbortSignal
}

/**
 * Serves a client over two streams, until it closes its end of `stdin` and its calls are answered, or it closes
 * `stdout`, or the signal aborts.
 */
export async function serveStreams({ stdin, stdout, signal, ...options }: StdioOptions): Promise<void> {
  // This does not end with `stdin`, because the transport would then drop the calls in flight.
  const input = new Readable({ read() {} })
  const transport = new StdioServerTransport(input, stdout)
  const gone = Promise.race([
    ...['close', 'error'].map((name) => once(stdout, name, { signal })),
    once(signal, 'abort'),
  ]).catch(() => undefined)
  let lost: unknown
  stdout.once('error', (error) => (lost = error))
  const { close } = serveStdio(() => openMcpServer(options), {
    transport,
    maxSubscriptions: 0,
    onerror: (error) => {
      // This one ends the connection; the owner of the stream hears of it, too.
      if (error !== lost) options.onFailure(error)
    },
  })
  const { onclose } = transport
  const closed = new Promise<void>((resolve) => {
    transport.onclose = () => {
      onclose?.()
      resolve()
    }
  })
  const calls = new OpenCalls(transport)
  const forward = (chunk: Buffer) => void input.push(chunk)
  stdin.on('data', forward)
  const answered = finished(stdin, { writable: false })
    .catch(() => undefined)
    .then(() => setImmediate())
    .then(() => calls.answered())
  if (!signal.aborted) await Promise.race([answered, gone, closed])
  stdin.off('data', forward)
  stdin.pause()
  await close()
}

/** Requests of the client that have no response yet. */
class OpenCalls {
  readonly #ids = new Set<string | number>()
  #onAnswered: () => void = () => undefined

  /** @param transport after it was started */
  constructor(transport: StdioServerTransport) {
    const { onmessage } = transport
    const send = transport.send.bind(transport)
    transport.onmessage = (message: JSONRPCMessage) => {
      if ('method' in message && 'id' in message) this.#ids.add(message.id)
      // A cancelled request gets no response.
      if ('method' in message && message.method === 'notifications/cancelled') this.#close(message.params?.requestId)
      onmessage?.(message)
    }
    transport.send = async (message: JSONRPCMessage) => {
      await send(message)
      if (!('method' in message)) this.#close(message.id)
    }
  }

  async answered(): Promise<void> {
    if (this.#ids.size > 0) await new Promise<void>((resolve) => (this.#onAnswered = resolve))
  }

  #close(id: unknown): void {
    this.#ids.delete(id as string | number)
    if (this.#ids.size === 0) this.#onAnswered()
  }
}
