import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { HttpTransport } from '../../src/cli/keep-alive-fetch.js'

const TEXT = '{"name":"Ünï 😀"}'

const server = createServer((request, response) => {
  const status = Number(request.url?.slice(1))
  response.writeHead(status, { 'x-many': ['a', 'b'], 'x-method': request.method })
  response.end(status === 204 ? undefined : TEXT)
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const transport = new HttpTransport()
t.teardown(() => {
  transport.close()
  server.close()
})
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

const get = (status: number, signal = new AbortController().signal) =>
  transport.fetch(`${url}/${status}`, { method: 'GET', headers: {}, redirect: 'manual', signal })

t.test('a response has what that of fetch has', async (t) => {
  for (const status of [200, 204, 302, 404, 503]) {
    const response = await get(status)
    t.equal(response.status, status)
    t.equal(response.headers.get('X-Method'), 'GET')
    t.equal(response.headers.get('x-many'), 'a, b')
    t.equal(await response.text(), status === 204 ? '' : TEXT)
  }
  const reader = (await get(200)).body?.getReader()
  const chunks: Uint8Array[] = []
  for (let chunk = await reader?.read(); chunk?.value; chunk = await reader?.read()) chunks.push(chunk.value)
  t.equal(Buffer.concat(chunks).toString(), TEXT)
})

t.test('an abort ends it', async (t) => {
  await t.rejects(get(200, AbortSignal.abort()), { name: 'AbortError' })
})
