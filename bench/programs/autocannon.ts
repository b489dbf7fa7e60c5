// Load by autocannon, for machines without wrk. Arguments: URL, connections, seconds, file of requests, and how many of
// them to skip. Prints one line of JSON, as wrk.lua does.
import autocannon, { type Request } from 'autocannon'
import type { Printed } from '../load.js'
import { parseRequest, readRequests } from '../requests.js'

const [url = '', connections = '', seconds = '', file = '', from = ''] = process.argv.slice(2)
const all = (await readRequests(file)).map(asAutocannonHasIt)
const count = Number(connections)

// Each connection gets a part of the requests, so that none is sent twice: a second delete of one event would fail.
const shares: Request[][] = Array.from({ length: count }, () => [])
all.forEach((_, i) => {
  shares[i % count]?.push(all[(i + Number(from)) % all.length] as Request)
})

let nextShare = 0
const result = await autocannon({
  url,
  connections: count,
  duration: Number(seconds),
  timeout: 30,
  setupClient: (client) => {
    const share = shares[nextShare++ % count] ?? []
    client.setRequests(share.length > 0 ? share : all)
  },
})
const printed: Printed = {
  requests: result.requests.total,
  us: result.duration * 1e6,
  connect: 0,
  read: result.errors - result.timeouts,
  write: 0,
  timeout: result.timeouts,
  status: result.non2xx,
  p50: result.latency.p50 * 1000,
  p99: result.latency.p99 * 1000,
}
console.log(JSON.stringify(printed))

/** Converts a request. Autocannon adds the content-length itself. */
function asAutocannonHasIt(bytes: Buffer): Request {
  const { method, path, headers, body } = parseRequest(bytes)
  const { 'content-length': _, ...rest } = headers
  return { method: method as 'GET', path, headers: rest, body }
}
