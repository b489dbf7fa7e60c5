import { once } from 'node:events'
import { createServer } from 'node:net'

/** A free port of 127.0.0.1. Another process may take it before the caller listens on it. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  await new Promise((done) => server.close(done))
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  return address.port
}
