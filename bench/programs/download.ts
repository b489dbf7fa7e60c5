// Sends one request and reads the answer to its end. Arguments: URL, file of requests, which of them from 0, and a file
// for the answer, which is on disk at the end, or nothing.
// Prints one line of JSON: the status, the answer's beginning, its bytes, and the seconds that it took.
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { request } from 'node:http'
import { parseRequest, readRequests } from '../requests.js'

const SHOWN = 500

const [url = '', file = '', which = '', output] = process.argv.slice(2)
const requests = await readRequests(file)
const { method, path, headers, body } = parseRequest(requests[Number(which) % requests.length] ?? Buffer.alloc(0))

const written = output === undefined ? null : await open(output, 'w')
const startedAt = performance.now()
const call = request(new URL(path, url), { method, headers })
call.end(body)
const [response] = await once(call, 'response')
let begin = ''
let bytes = 0
for await (const chunk of response) {
  if (begin.length < SHOWN) begin += chunk.toString('latin1', 0, SHOWN)
  bytes += chunk.length
  await written?.appendFile(chunk)
}
await written?.datasync()
const seconds = (performance.now() - startedAt) / 1000
console.log(JSON.stringify({ status: response.statusCode, begin, bytes, seconds }))
