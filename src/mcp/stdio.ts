import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio'
import { openMcpServer, type ServerOptions } from './server.js'

export interface StdioOptions extends ServerOptions {
  stdin: Readable
  stdout: Writable
  /** ends the connection */
  signal: AbortSignal
}

/** Serves a client over two streams, until it closes one of them or the signal comes. */
export async function serveStreams({ stdin, stdout, signal, ...options }: StdioOptions): Promise<void> {
  const ended = Promise.race([
    ...['end', 'close', 'error'].map((name) => once(stdin, name)),
    ...['close', 'error'].map((name) => once(stdout, name)),
    once(signal, 'abort'),
  ]).catch(() => undefined)
  const { close } = serveStdio(() => openMcpServer(options), {
    transport: new StdioServerTransport(stdin, stdout),
    maxSubscriptions: 0,
    onerror: options.onFailure,
  })
  if (!signal.aborted) await ended
  await close()
}
