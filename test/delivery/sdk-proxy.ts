import { once } from 'node:events'
import { createServer, type IncomingMessage, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { MAX_PARSED_HEAD } from '../../src/http/socket/head-limits.js'
import type { Scope } from '../helper.js'

/** What happens to the response to every second POST that the service has carried out. */
export type Fault = 'none' | '503' | 'cut'

/** A POST that an SDK sent. */
export interface Sent {
  url: string
  headers: Record<string, string>
  body: Buffer
  /** whether its response was lost */
  isLost: boolean
}

/**
 * An HTTP proxy in front of a service: every second POST to a path is carried out, but its response is lost. The first
 * response of each path is lost, so that every SDK meets a fault.
 */
export async function startSdkProxy(t: Scope, target: string) {
  const counts = new Map<string, number>()
  const proxy = { url: '', fault: 'none' as Fault, lost: 0, sent: [] as Sent[] }
  const server = createServer({ maxHeaderSize: MAX_PARSED_HEAD }, async (request, response) => {
    const { method = 'GET', url = '/', headers } = request
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { connection: _, 'content-length': __, 'transfer-encoding': ___, ...rest } = headers
    // Keeps the Host header: an SDK may be told to send to the host that it asked for its settings.
    const onward = send(target + url, { method, headers: rest, maxHeaderSize: MAX_PARSED_HEAD })
    onward.end(Buffer.concat(chunks))
    const [answer] = (await once(onward, 'response')) as [IncomingMessage]
    const body = Buffer.concat(await answer.toArray())
    const path = url.split('?', 1)[0] ?? ''
    const count = (counts.get(path) ?? 0) + 1
    const isLost = method === 'POST' && answer.statusCode === 200 && proxy.fault !== 'none' && count % 2 === 1
    if (method === 'POST') {
      counts.set(path, count)
      proxy.sent.push({ url, headers: rest as Record<string, string>, body: Buffer.concat(chunks), isLost })
    }
    if (isLost) proxy.lost++
    if (isLost && proxy.fault === 'cut') return response.socket?.destroy()
    const { 'content-length': ____, 'transfer-encoding': _____, ...kept } = answer.headers
    response.writeHead(isLost ? 503 : (answer.statusCode ?? 502), kept).end(isLost ? '{}' : body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  proxy.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return Object.assign(proxy, {
    /** from now on */
    become(fault: Fault) {
      counts.clear()
      Object.assign(proxy, { fault, lost: 0, sent: [] })
    },
  })
}
