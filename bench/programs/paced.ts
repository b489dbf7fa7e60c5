// Load at a given rate. Arguments: URL, connections, seconds, file of requests, requests per second. Prints one line of
// JSON, as wrk.lua does; latencies count from the time when a request was due. The first requests do not count: for 0.1
// to 0.3 s, this process is itself late, because its code is being compiled.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Printed } from '../load.js'
import { readRequests } from '../requests.js'

const ANSWER_LIMIT_MS = 5_000
const LEAD_IN_SECONDS = 0.5
/** of one read; responses are far smaller */
const READ_BYTES = 16 * 1024
const HEAD_END = '\r\n\r\n'

const [url = '', connections = '', seconds = '', file = '', rate = ''] = process.argv.slice(2)
const requests = await readRequests(file)
const perMs = Number(rate) / 1000
const leadIn = Math.round(Number(rate) * LEAD_IN_SECONDS)
const total = leadIn + Math.round(Number(rate) * Number(seconds))

/** A connection, and the request whose response it waits for. */
interface Line {
  socket: Socket
  request: number
  /** of its response, bytes as characters */
  received: string
}

const idle: Line[] = []
/** of each request, ms */
const latencies = new Float64Array(total)
const errors = { read: 0, status: 0 }
let sent = 0
let answered = 0

const { hostname, port } = new URL(url)
for (let i = 0; i < Number(connections); i++) idle.push(await open())

const startedAt = performance.now()
while (sent < total) {
  sendDue()
  await wait(1)
}
const deadline = performance.now() + ANSWER_LIMIT_MS
while (answered < total && performance.now() < deadline) await wait(10)
const us = (performance.now() - dueAt(leadIn)) * 1000

const counted = latencies.subarray(leadIn).sort()
const percentile = (share: number) => (counted[Math.ceil(counted.length * share) - 1] ?? 0) * 1000
const printed: Printed = {
  requests: counted.length,
  us,
  connect: 0,
  ...errors,
  write: 0,
  timeout: total - answered,
  p50: percentile(0.5),
  p99: percentile(0.99),
}
console.log(JSON.stringify(printed))
process.exit()

/**
 * Reads into its own buffer, bypassing streams: the CPU time of this process is not available to the measured service.
 */
async function open(): Promise<Line> {
  const buffer = Buffer.alloc(READ_BYTES)
  const callback = (bytes: number) => {
    receive(line, buffer.toString('latin1', 0, bytes))
    return true
  }
  const onread = { buffer, callback }
  const socket = connect({ host: hostname, port: Number(port), noDelay: true, onread })
  const line: Line = { socket, request: 0, received: '' }
  await once(socket, 'connect')
  socket.on('error', () => errors.read++)
  return line
}

function dueAt(request: number): number {
  return startedAt + request / perMs
}

function sendDue(): void {
  const due = Math.min(total, Math.floor((performance.now() - startedAt) * perMs))
  while (sent < due) {
    const line = idle.pop()
    if (!line) return
    line.request = sent
    line.socket.write(requests[sent++ % requests.length] as Buffer)
  }
}

/** The responses all have a content-length. */
function receive(line: Line, text: string): void {
  line.received += text
  const headEnd = line.received.indexOf(HEAD_END)
  if (headEnd === -1) return
  const head = line.received.slice(0, headEnd)
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1])
  if (line.received.length < headEnd + HEAD_END.length + length) return
  line.received = ''
  if (!head.startsWith('HTTP/1.1 2')) errors.status++
  latencies[line.request] = performance.now() - dueAt(line.request)
  answered++
  idle.push(line)
  sendDue()
}
