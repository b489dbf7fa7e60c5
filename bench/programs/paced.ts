// Load at a given rate. Arguments: URL, connections, seconds, file of requests, requests per second.
// Prints one line of JSON, as wrk.lua does; latencies count from when a request was due.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Printed } from '../load.js'
import { readRequests } from '../requests.js'

const ANSWER_LIMIT_MS = 5_000
const HEAD_END = Buffer.from('\r\n\r\n')

const [url = '', connections = '', seconds = '', file = '', rate = ''] = process.argv.slice(2)
const requests = await readRequests(file)
const perMs = Number(rate) / 1000
const total = Math.round(Number(rate) * Number(seconds))

/** A connection with the request that it waits for. */
interface Line {
  socket: Socket
  dueAt: number
  received: Buffer
}

const idle: Line[] = []
const latencies: number[] = []
const errors = { read: 0, status: 0 }
let sent = 0

const { hostname, port } = new URL(url)
for (let i = 0; i < Number(connections); i++) {
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await once(socket, 'connect')
  const line: Line = { socket, dueAt: 0, received: Buffer.alloc(0) }
  socket.on('data', (chunk) => receive(line, chunk))
  socket.on('error', () => errors.read++)
  idle.push(line)
}

const startedAt = performance.now()
while (sent < total) {
  sendDue()
  await wait(1)
}
const deadline = performance.now() + ANSWER_LIMIT_MS
while (latencies.length < total && performance.now() < deadline) await wait(10)
const us = (performance.now() - startedAt) * 1000

latencies.sort((a, b) => a - b)
const percentile = (share: number) => (latencies[Math.ceil(latencies.length * share) - 1] ?? 0) * 1000
const printed: Printed = {
  requests: latencies.length,
  us,
  connect: 0,
  ...errors,
  write: 0,
  timeout: total - latencies.length,
  p50: percentile(0.5),
  p99: percentile(0.99),
}
console.log(JSON.stringify(printed))
process.exit()

function sendDue(): void {
  const due = Math.min(total, Math.floor((performance.now() - startedAt) * perMs))
  while (sent < due) {
    const line = idle.pop()
    if (!line) return
    line.dueAt = startedAt + sent / perMs
    line.socket.write(requests[sent++ % requests.length] as Buffer)
  }
}

/** Answers have a content-length here. */
function receive(line: Line, chunk: Buffer): void {
  line.received = line.received.length > 0 ? Buffer.concat([line.received, chunk]) : chunk
  const headEnd = line.received.indexOf(HEAD_END)
  if (headEnd === -1) return
  const head = line.received.toString('latin1', 0, headEnd)
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1])
  if (line.received.length < headEnd + HEAD_END.length + length) return
  line.received = Buffer.alloc(0)
  if (!/^HTTP\/1\.1 2/.test(head)) errors.status++
  latencies.push(performance.now() - line.dueAt)
  idle.push(line)
  sendDue()
}
