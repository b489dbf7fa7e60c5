// Sends one request and reads the answer to its end. Arguments: URL, file of requests, which of them from 0, and a file
// for the answer, which is on disk at the end, or nothing.
// Prints one line of JSON: the status, the answer's beginning, its bytes, and the seconds that it took.
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { request } from 'node:http'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseRequest, readRequests } from '../requests.js'

const SHOWN = 500
/** Bytes that gather during a write are written together: as fast as `curl -o`, unlike a write per chunk. */
const WRITE_BYTES = 1024 * 1024

const [url = '', file = '', which = '', output] = process.argv.slice(2)
const requests = await readRequests(file)
const { method, path, headers, body } = parseRequest(requests[Number(which) % requests.length] ?? Buffer.alloc(0))
const sink =
  output === undefined
    ? new Writable({ write: (_chunk, _encoding, done) => done() })
    : createWriteStream(output, { highWaterMark: WRITE_BYTES, flush: true })

const startedAt = performance.now()
const call = request(new URL(path, url), { method, headers })
call.end(body)
const [response] = await once(call, 'response')
let begin = ''
let bytes = 0
response.on('data', (chunk: Buffer) => {
  if (begin.length < SHOWN) begin += chunk.toString('latin1', 0, SHOWN)
  bytes += chunk.length
})
await pipeline(response, sink)
const seconds = (performance.now() - startedAt) / 1000
console.log(JSON.stringify({ status: response.statusCode, begin, bytes, seconds }))
