import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createRawServer, type Socket } from 'node:net'
import * as fc from 'fast-check'
import t, { type Test } from 'tap'
import { HttpTransport } from '../../../src/cli/http/keep-alive-fetch.js'

const TEXT = '{"name":"Ünï 😀"}'

t.test('the transport of commands', async (t) => {
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

  t.test('a response has the same members as that of fetch', async (t) => {
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

  t.test('an abort ends the call', async (t) => {
    await t.rejects(get(200, AbortSignal.abort()), { name: 'AbortError' })
  })

  /** A server that answers each request in the same way, and counts its connections. */
  async function rawServer(t: Test, answer: (socket: Socket, request: string) => void) {
    const sockets: Socket[] = []
    const raw = createRawServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => undefined)
      socket.on('data', (chunk) => answer(socket, chunk.toString()))
    })
    raw.listen(0, '127.0.0.1')
    await once(raw, 'listening')
    const own = new HttpTransport()
    t.teardown(() => {
      own.close()
      for (const socket of sockets) socket.destroy()
      raw.close()
    })
    const address = `http://127.0.0.1:${(raw.address() as AddressInfo).port}`
    const post = (body?: string, signal = new AbortController().signal, method = 'POST') =>
      own.fetch(`${address}/a?b=c`, {
        method,
        headers: { 'x-key': 'k' },
        redirect: 'manual',
        signal,
        ...(body && { body }),
      })
    return { post, sockets }
  }

  const OK = 'HTTP/1.1 200 OK\r\n'

  t.test('calls share connections, one call at a time on each', async (t) => {
    const asked: string[] = []
    const { post, sockets } = await rawServer(t, (socket, request) => {
      asked.push(request)
      socket.write(`${OK}content-length: 2\r\n\r\nok`)
    })
    for (const body of ['{"ü":1}', undefined]) t.equal(await (await post(body)).text(), 'ok')
    t.equal(sockets.length, 1)
    t.match(
      asked[0],
      /^POST \/a\?b=c HTTP\/1\.1\r\nhost: 127\.0\.0\.1:\d+\r\n(.+\r\n)*x-key: k\r\ncontent-length: 8\r\n\r\n\{"ü":1\}$/,
    )
    t.notMatch(asked[1], /content-length/)
    await Promise.all([post('a'), post('b'), post('c')])
    t.equal(sockets.length, 3)
  })

  t.test('a response is read as it was sent, however it is split', async (t) => {
    const texts = [
      `HTTP/1.1 100 Continue\r\n\r\n${OK}Content-Length: 5\r\n\r\nhello`,
      `${OK}transfer-encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nx: y\r\n\r\n`,
    ]
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...texts),
        fc.array(fc.nat({ max: 90 }), { maxLength: 4 }),
        async (text, cuts) => {
          const { post } = await rawServer(t, async (socket) => {
            socket.setNoDelay(true)
            let last = 0
            for (const cut of [...cuts.sort((a, b) => a - b), text.length]) {
              const part = text.slice(last, cut)
              if (part) await new Promise((resolve) => socket.write(part, resolve))
              last = Math.max(last, cut)
            }
          })
          for (let i = 0; i < 2; i++) t.equal(await (await post('x')).text(), 'hello')
        },
      ),
      { numRuns: 15 },
    )
  })

  t.test('the end of a connection ends a response without a length, and fails one that is not complete', async (t) => {
    let text = ''
    const { post, sockets } = await rawServer(t, (socket) => socket.end(text))
    text = `${OK}\r\nhello`
    t.equal(await (await post('x')).text(), 'hello')
    for (text of ['', 'HTT', `${OK}content-length: 9\r\n\r\nhello`, `${OK}transfer-encoding: chunked\r\n\r\n3\r\nab`]) {
      await t.rejects(post('x'), { message: /./ }, JSON.stringify(text))
    }
    t.equal(sockets.length, 5, 'a connection that has ended is not used again')
  })

  t.test('invalid and unrequested responses are errors', async (t) => {
    let text = ''
    const { post, sockets } = await rawServer(t, (socket) => socket.write(text))
    for (text of ['SSH-2.0-x\r\n', 'HTTP/2 200\r\n\r\n', `${OK}: x\r\n\r\n`, `${OK}content-length: -1\r\n\r\n`]) {
      await t.rejects(post('x'), { code: 'HPE_INVALID_CONSTANT' }, JSON.stringify(text))
    }
    await t.rejects(
      rawServer(t, (socket) => socket.write(`${OK}content-encoding: gzip\r\n\r\n`)).then(({ post }) => post('x')),
      { code: 'compressed' },
    )
    text = `${OK}content-length: 2\r\n\r\nok`
    const before = sockets.length
    t.equal(await (await post('x')).text(), 'ok')
    const closed = once(sockets[before] as Socket, 'close')
    sockets[before]?.write('more')
    await closed
    t.equal(await (await post('x')).text(), 'ok')
  })

  t.test(
    'a connection whose request was not read to its end, or that the server closes, is not used again',
    async (t) => {
      let close = ''
      const { post, sockets } = await rawServer(t, (socket) => {
        socket.pause()
        socket.write(`HTTP/1.1 413 No\r\n${close}content-length: 0\r\n\r\n`)
      })
      for (close of ['', 'Connection: close\r\n']) t.equal((await post('x'.repeat(20_000_000))).status, 413)
      t.equal(sockets.length, 2)
      const aborting = new AbortController()
      const stuck = await rawServer(t, () => aborting.abort())
      await t.rejects(stuck.post('x', aborting.signal), { name: 'AbortError' })
      t.equal((await post('x', undefined, 'HEAD')).status, 413)
    },
  )
})
