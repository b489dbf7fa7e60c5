import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export interface Received {
  method: string | undefined
  url: string | undefined
  headers: IncomingHttpHeaders
  body: string
}

export type Fault = (response: ServerResponse, request: Received) => void

export const DONE = '{"status":1,"error":null}'

export const answer =
  (status: number, body: string, headers: Record<string, string> = {}): Fault =>
  (response) => {
    response.writeHead(status, headers).end(body)
  }

export const failure = (status: number, code: string, headers = {}) =>
  answer(status, JSON.stringify({ status: 0, error: 'A sentence.', code }), headers)

/** Response to the first call of a command, which checks the key. */
export const keyAccepted = answer(200, '{"status":1,"error":null,"key":{"kind":"secret","project":"default"}}')

export const cut: Fault = (response) => response.destroy()

export const cutInside: Fault = (response) => {
  response.writeHead(200, { 'content-length': 1000 }).write('{"status":1')
  setImmediate(() => response.destroy())
}

export const silence: Fault = () => undefined

/** A faulty server: it answers requests with these responses in order, then repeats the last one. */
export async function faultyServer(t: Test, answers: Fault[]) {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const { method, url, headers } = request
    const all = { method, url, headers, body }
    received.push(all)
    answers[Math.min(received.length, answers.length) - 1]?.(response, all)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }
}
