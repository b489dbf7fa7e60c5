import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import * as fc from 'fast-check'
import t, { type Test } from 'tap'
import { blockFetch } from '../../../src/cli/http/block-fetch.js'
import { BLOCK_BYTES, Blocks } from '../../../src/cli/http/blocks.js'
import type { FetchResponse } from '../../../src/client/connection.js'

const HEAD = 'HTTP/1.1 200 OK\r\nX-Many: a\r\nx-many: b\r\n'

/** A server that answers each connection as given, and records the requests. */
async function serverOf(t: Test, answer: (socket: Socket) => Promise<void> | void) {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('data', async (chunk) => {
      asked.push(chunk.toString())
      await answer(socket)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

function get(url: string, { method = 'GET', signal = new AbortController().signal, key = 'sk_1' } = {}) {
  const headers = { 'x-api-key': key }
  return blockFetch(new Blocks())(`${url}/public/export?format=csv`, { method, headers, redirect: 'manual', signal })
}

async function bytesOf({ body }: FetchResponse): Promise<Buffer> {
  const chunks: Buffer[] = []
  const reader = body?.getReader()
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    chunks.push(Buffer.from(read.value ?? []))
  }
  return Buffer.concat(chunks)
}

function chunkedText(body: Buffer, sizes: number[]): Buffer {
  const parts: Buffer[] = []
  for (let at = 0, i = 0; at < body.length; i++) {
    const chunk = body.subarray(at, at + (sizes[i % sizes.length] ?? 1))
    parts.push(Buffer.from(`${chunk.length.toString(16)};a=b\r\n`), chunk, Buffer.from('\r\n'))
    at += chunk.length
  }
  return Buffer.concat([...parts, Buffer.from('0\r\nx-trailer: 1\r\n\r\n')])
}

t.test('blockFetch returns a body as it was sent, however it is split', async (t) => {
  let text = Buffer.alloc(0)
  let writes: number[] = []
  const { url, asked } = await serverOf(t, async (socket) => {
    socket.setNoDelay(true)
    for (let at = 0, i = 0; at < text.length; i++) {
      const size = writes[i % writes.length] ?? 1
      await new Promise((resolve) => socket.write(text.subarray(at, at + size), resolve))
      at += size
    }
  })
  const sizes = fc.array(fc.oneof(fc.integer({ min: 20, max: 400 }), fc.integer({ min: 1000, max: 2_000_000 })), {
    minLength: 1,
    maxLength: 6,
  })
  const lengths = fc.oneof(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 0, max: 4 * BLOCK_BYTES }))
  await fc.assert(
    fc.asyncProperty(lengths, sizes, sizes, fc.boolean(), async (length, chunks, cuts, isChunked) => {
      // The body contains bytes that look like framing.
      const body = Buffer.alloc(length, '0\r\n\r\nHTTP/1.1 5\r\n')
      const large = (size: number) => Math.max(size, Math.ceil(length / 300))
      writes = cuts.map(large)
      text = isChunked
        ? Buffer.concat([
            Buffer.from(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`),
            chunkedText(body, chunks.map(large)),
          ])
        : Buffer.concat([Buffer.from(`HTTP/1.1 103 Early\r\n\r\n${HEAD}content-length: ${length}\r\n\r\n`), body])
      const response = await get(url)
      if (response.headers.get('x-many') !== 'a, b') throw new Error('another header')
      if (!(await bytesOf(response)).equals(body)) throw new Error('other bytes')
    }),
    { numRuns: 25 },
  )
  t.match(
    asked[0],
    /^GET \/public\/export\?format=csv HTTP\/1\.1\r\nhost: 127\.0\.0\.1:\d+\r\naccept-encoding: identity\r\nuser-agent: \S+\r\nx-api-key: sk_1\r\n/,
  )
})

t.test('blockFetch returns the bytes before a break, then the error', async (t) => {
  const body = Buffer.alloc(BLOCK_BYTES + 5, 'x')
  for (const framing of ['transfer-encoding: chunked', `content-length: ${2 * body.length}`]) {
    const start = framing.startsWith('t') ? `${(2 * body.length).toString(16)}\r\n` : ''
    const { url } = await serverOf(t, (socket) => void socket.end(`${HEAD}${framing}\r\n\r\n${start}${body}`))
    const reader = (await get(url)).body?.getReader()
    let bytes = 0
    await t.rejects(async () => {
      for (;;) bytes += (await reader?.read())?.value?.length ?? Number.NaN
    }, /broke off|are missing/)
    t.equal(bytes, body.length)
  }
})

t.test('a reader gets a partial block when nothing more arrives', async (t) => {
  let more = (): void => undefined
  const { url } = await serverOf(t, (socket) => {
    socket.write(`${HEAD}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`)
    more = () => void socket.write('2\r\nde\r\n0\r\n\r\n')
  })
  const reader = (await get(url)).body?.getReader()
  t.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), 'abc')
  more()
  t.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), 'de')
  t.equal((await reader?.read())?.done, true)
})

t.test('a response without a reader is paused', async (t) => {
  let written = 0
  const part = Buffer.alloc(BLOCK_BYTES, 'x')
  let stalled = (): void => undefined
  const isStalled = new Promise<void>((resolve) => {
    stalled = resolve
  })
  const length = 64 * part.length
  const { url } = await serverOf(t, async (socket) => {
    socket.write(`${HEAD}content-length: ${length}\r\n\r\n`)
    const timer = setInterval(() => socket.writableLength > 0 && stalled(), 500)
    for (; written < length; written += part.length) await new Promise((resolve) => socket.write(part, resolve))
    clearInterval(timer)
  })
  const response = await get(url)
  await isStalled
  t.ok(written < length / 2, `${written} bytes were taken`)
  t.equal((await bytesOf(response)).length, length)
})

t.test('text, an empty body, and one that the end of the connection ends', async (t) => {
  let text = ''
  const { url } = await serverOf(t, (socket) => void socket.end(text))
  text = `HTTP/1.1 404 Not Found\r\ncontent-encoding: Identity\r\ncontent-length: 2\r\n\r\nä`
  const refused = await get(url)
  t.equal(refused.status, 404)
  t.equal(await refused.text(), 'ä')
  text = `${HEAD}content-length: 500\r\n\r\n`
  t.equal((await get(url, { method: 'HEAD' })).body, null)
  text = 'HTTP/1.0 200 OK\r\n\r\nabc'
  t.equal(await (await get(url)).text(), 'abc')
})

t.test('blockFetch refuses anything that is not a response', async (t) => {
  let text = ''
  const { url } = await serverOf(t, (socket) => void socket.end(text))
  const faults: [string, string | RegExp][] = [
    ['', 'ECONNRESET'],
    ['HTTP/1.1 200 OK\r\nx: y', 'ECONNRESET'],
    ['SSH-2.0-x\r\n', 'HPE_INVALID_CONSTANT'],
    ['HTTP/2 200\r\n\r\n', 'HPE_INVALID_CONSTANT'],
    [`${HEAD}content-length: -1\r\n\r\n`, 'HPE_INVALID_CONSTANT'],
    [`${HEAD}${'x: y\r\n'.repeat(20_000)}`, 'HPE_INVALID_CONSTANT'],
  ]
  for (const [answer, code] of faults) {
    text = answer
    await t.rejects(get(url), { code }, JSON.stringify(answer.slice(0, 60)))
  }
  for (const chunk of ['x\r\n', '-1\r\n', '1\r\nab\r\n', '0'.repeat(20_000)]) {
    text = `${HEAD}transfer-encoding: chunked\r\n\r\n${chunk}`
    await t.rejects(async () => bytesOf(await get(url)), Error, chunk.slice(0, 20))
  }
  for (const coding of ['content-encoding: gzip', 'transfer-encoding: gzip, chunked', 'Transfer-Encoding: br']) {
    text = `${HEAD}${coding}\r\ncontent-length: 2\r\n\r\nab`
    await t.rejects(get(url), { code: 'compressed', status: 200, message: /is compressed \((gzip|gzip, chunked|br)\)/ })
  }
  await t.rejects(get(url, { key: 'a\r\nb: c' }), TypeError)
  await t.rejects(get('http://127.0.0.1:1'), { code: 'ECONNREFUSED' })
})

t.test('an abort ends blockFetch before and during a response', async (t) => {
  const { url } = await serverOf(t, (socket) => void socket.write(`${HEAD}content-length: 500\r\n\r\nabc`))
  const reason = new Error('enough')
  await t.rejects(get(url, { signal: AbortSignal.abort(reason) }), reason)
  const end = new AbortController()
  const response = await get(url, { signal: end.signal })
  const reading = bytesOf(response)
  end.abort(reason)
  await t.rejects(reading, reason)
})
