// Sends one request and reads the whole response. Arguments: URL, file of requests, index of the request, and
// optionally a file for the response, which is flushed to disk. Prints one line of JSON: the status, the beginning of
// the response, its bytes, and the seconds that it took.
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { request } from 'node:http'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseRequest, readRequests } from '../requests.js'

const SHOWN = 500
/**
 * Bytes that arrive during a write are written together, which is as fast as `curl -o`; one write per chunk is slower.
 */
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
