import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { promisify } from 'node:util'
import * as zlib from 'node:zlib'
import type { LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { PUBLIC_KEY, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'
import { countInflated } from '../http/count-inflated.js'
import { zstdFrame } from '../zstd-frame.js'

const gunzip = promisify(zlib.gunzip)

const LIMIT = 20_000
const BATCH_LIMIT = 1_000_000

/** Every encoding. */
const ENCODINGS: Record<string, (body: string) => Buffer> = {
  gzip: zlib.gzipSync,
  deflate: zlib.deflateSync,
  br: zlib.brotliCompressSync,
}
// Node has it from 22.15 on; the types are those of Node 20.
ENCODINGS.zstd = (zlib as { zstdCompressSync?: (body: string) => Buffer }).zstdCompressSync ?? zstdFrame

const limits = { BODY_LIMIT: `${LIMIT}`, BATCH_BODY_LIMIT: `${BATCH_LIMIT}` }
const { app, events } = await startApp(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off', ...limits })
const address = await app.listen({ host: '127.0.0.1', port: 0 })

const CALLS: [path: string, fields: string, limit: number][] = [
  ['/track', '"event":"e","distinct_id":"u"', LIMIT],
  ['/track/batch', '"events":[{"event":"e","distinct_id":"u"}]', BATCH_LIMIT],
  ['/users/identify', '"distinct_id":"u"', LIMIT],
  ['/users/profile', '"distinct_id":"u","operations":{"$set":{"a":1}}', LIMIT],
  ['/sessions/start', '"distinct_id":"u","session_id":"s"', LIMIT],
  ['/sessions/update', '"distinct_id":"u","session_id":"s"', LIMIT],
  ['/sessions/end', '"distinct_id":"u","session_id":"s"', LIMIT],
]

t.test('compressed bodies', async (t) => {
  const post = (path: string, payload: Buffer, encoding: string, type = 'application/json') =>
    app.inject({
      method: 'POST',
      url: `/public${path}`,
      headers: {
        'x-api-key': path.startsWith('/sessions') ? PUBLIC_KEY : SECRET_KEY,
        'content-type': type,
        'content-encoding': encoding,
      },
      payload,
    })
  function isRefused(t: Test, response: LightMyRequestResponse, status: number, code: string, what: string): void {
    t.equal(response.statusCode, status, `${what}: ${response.body}`)
    const { status: zero, error, ...rest } = response.json()
    t.equal(zero, 0)
    t.match(error, /\w \w/)
    t.strictSame(rest, { code })
  }

  for (const [encoding, compress] of Object.entries(ENCODINGS)) {
    t.test(encoding, async (t) => {
      const bomb = compress(' '.repeat(5 * BATCH_LIMIT))
      for (const [path, anySession, limit] of CALLS) {
        const fields = anySession.replace('"s"', `"${encoding}"`)
        const what = `${encoding} at ${path}`
        const filled = (length: number) => compress(`{${fields}}`.padEnd(length, ' '))
        t.equal((await post(path, filled(0), encoding)).statusCode, 200, what)
        if (path !== '/sessions/end')
          t.equal((await post(path, filled(limit), encoding)).statusCode, 200, `${what}: the limit`)

        t.ok(filled(limit + 1).length < limit / 5, 'the inflated size counts')
        isRefused(t, await post(path, filled(limit + 1), encoding), 413, 'payload_too_large', what)
        isRefused(t, await post(path, bomb, encoding), 413, 'payload_too_large', `${what}: a bomb`)

        const good = filled(0)
        const broken: Record<string, Buffer> = {
          'cut off': good.subarray(0, -3),
          'with bytes behind it': Buffer.concat([good, Buffer.from('xyz')]),
          'with many bytes behind it': Buffer.concat([good, Buffer.alloc(limit / 2, 'x')]),
          'with a second body behind it': Buffer.concat([good, good]),
          'only begun': good.subarray(0, 4),
          empty: Buffer.alloc(0),
          'not compressed': Buffer.from(`{${fields}}`),
          'something else': Buffer.from('\u0000\u0001nonsense\u00ff'.repeat(20)),
          'JSON that is broken': compress(`{${fields}`),
          'no UTF-8': compress(`{${fields},"x":"\ud800"}`).subarray(0, -1),
        }
        // All calls inflate alike; the others may differ in how they begin.
        const names = path === '/track' || path === '/sessions/start' ? Object.keys(broken) : ['cut off', 'empty']
        for (const name of names) {
          const refused = await post(path, broken[name] ?? good, encoding)
          isRefused(t, refused, 400, 'invalid_json', `${what}: ${name}`)
        }
        isRefused(t, await post(path, good, encoding, 'text/html'), 415, 'unsupported_media_type', what)
      }
    })
  }

  t.test('alternative names of an encoding', async (t) => {
    const body = Buffer.from('{"distinct_id":"u"}')
    const plain = ['identity', 'Identity', ' IDENTITY ', '']
    for (const encoding of plain) t.equal((await post('/users/identify', body, encoding)).statusCode, 200, encoding)
    for (const [encoding, compress] of Object.entries(ENCODINGS)) {
      const others = [encoding.toUpperCase(), ` ${encoding} `, ...(encoding === 'gzip' ? ['x-gzip', 'X-GZip'] : [])]
      for (const other of others) {
        t.equal((await post('/users/identify', compress(`${body}`), other)).statusCode, 200, other)
      }
    }
  })

  t.test('other encodings', async (t) => {
    const several = ['gzip, br', 'gzip, gzip', 'identity, gzip', 'gzip,']
    const encodings = ['identity2', 'compress', 'x', ...several]
    for (const [path, fields] of CALLS) {
      for (const encoding of encodings) {
        const response = await post(path, Buffer.from(`{${fields}}`), encoding)
        isRefused(t, response, 415, 'unsupported_media_type', `${encoding} at ${path}`)
        t.match(response.json().error, /one of gzip, deflate, br, zstd/)
      }
    }
  })

  t.test('refused calls change nothing', async (t) => {
    const perEncoding = 4
    t.equal((await events()).length, perEncoding * Object.keys(ENCODINGS).length)
  })
})

t.test('a bomb is inflated up to the limit and no further', async (t) => {
  const inflated = countInflated(t)
  // With one connection, the second call is read only after the whole body of the first one.
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const post = async (body: Buffer) => {
    const headers = { 'x-api-key': SECRET_KEY, 'content-type': 'application/json', 'content-encoding': 'gzip' }
    const call = request(`${address}/public/track/batch`, { method: 'POST', agent, headers }).end(body)
    const [response]: [IncomingMessage] = (await once(call, 'response')) as [IncomingMessage]
    await once(response.resume(), 'end')
    return response.statusCode
  }
  // Concatenated gzip members are one gzip file (RFC 1952, 2.2).
  const megabyte = zlib.gzipSync(' '.repeat(1_000_000))
  const bomb = Buffer.concat(Array.from({ length: 500 }, () => megabyte))
  t.ok(bomb.length < BATCH_LIMIT, 'its compressed size is within the limit')
  const good = zlib.gzipSync('{"events":[{"event":"e","distinct_id":"u"}]}')

  t.equal(await post(bomb), 413)
  t.equal(await post(good), 200)
  // Inflating all of it would produce this many bytes.
  const control = await gunzip(bomb.subarray(0, 50 * megabyte.length))
  const ofBomb = inflated() - control.length
  t.ok(ofBomb > BATCH_LIMIT && ofBomb < 2 * BATCH_LIMIT, `${ofBomb} of 500 million bytes were inflated`)
})

t.test('the rest of a body that is not read does not block its connection', async (t) => {
  const { port } = new URL(address)
  // Random bytes, so that they do not fit the buffers between the socket and the decompression.
  const body = zlib.gzipSync(randomBytes(3_000_000))
  const track = 'POST /public/track'
  const key = `x-api-key: ${SECRET_KEY}`
  const calls: [status: number, call: string, header: string, type: string][] = [
    [401, track, 'x-api-key: sk_unknown', 'application/json'],
    [413, track, key, 'application/json'],
    [415, track, key, 'text/html'],
    [200, 'GET /public/events', key, 'application/json'],
  ]
  for (const [status, call, header, type] of calls) {
    t.test(`${status} after ${call}`, async (t) => {
      const socket = connect(Number(port), '127.0.0.1')
      t.teardown(() => socket.destroy())
      let answers = ''
      socket.on('data', (chunk) => {
        answers += chunk
      })
      const statuses = () => answers.match(/HTTP\/1\.1 \d+/g) ?? []
      const headers = [
        'host: x',
        header,
        `content-type: ${type}`,
        'content-encoding: gzip',
        `content-length: ${body.length}`,
      ]
      socket.write(`${call} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`)
      socket.write(body)
      await until(`the ${status}`, () => statuses().length === 1)
      socket.write('GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n')
      await until(`the response after the ${status}`, () => statuses().length === 2)
      t.strictSame(statuses(), [`HTTP/1.1 ${status}`, 'HTTP/1.1 200'])
    })
  }
})
