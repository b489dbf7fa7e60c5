import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { finished } from 'node:stream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { CLIENT_LIMITS } from '../../../src/http/socket/connection-limits.js'
import { Connections } from '../../../src/http/socket/connections.js'
import { HeadWatch, MAX_PARSED_HEAD } from '../../../src/http/socket/head-limits.js'
import { type Client, SECRET_KEY, settingsFor, startApp, startClickHouse, until } from '../../helper.js'

const HOST = 'host: 127.0.0.1\r\n'
const SHORT = 300

const engine = await startClickHouse(t)
/** The services of these tests use the same storage, one after the other. */
const settings = { ...(await settingsFor(t, 'embedded')), FACTS: 'off', CLICKHOUSE_URL: engine.url }

/** A socket to the service, and the bytes received on it. */
async function open(t: Test, { app }: Client): Promise<{ socket: Socket; answer(): string; closed: Promise<unknown> }> {
  if (!app.server.listening) await app.listen({ host: '127.0.0.1', port: 0 })
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk
  })
  socket.on('error', () => undefined)
  const closed = closeOf(socket)
  await once(socket, 'connect')
  return { socket, answer: () => answer, closed }
}

/** Unlike `once`, which rejects if the end is a reset. */
function closeOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()))
}

function connections({ app }: Client): Promise<number> {
  return new Promise((resolve, reject) => {
    app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)))
  })
}

function isRefused(t: Test, answer: string, status: number, error: RegExp): void {
  const [head = '', body = ''] = answer.split('\r\n\r\n')
  t.match(head, new RegExp(`^HTTP/1\\.1 ${status} `))
  t.match(JSON.parse(body), { status: 0, code: 'invalid_request', error })
}

t.test('a client that sends too slowly is disconnected', async (t) => {
  const clientLimits = { ...CLIENT_LIMITS, headersMs: SHORT, requestMs: 2 * SHORT, checkMs: 20 }
  const client = await startApp(t, settings, { clientLimits })

  t.test('headers', async (t) => {
    const { socket, answer, closed } = await open(t, client)
    socket.write(`GET /public/events HTTP/1.1\r\n${HOST}`)
    await closed
    isRefused(t, answer(), 408, /did not arrive in time/)
  })

  t.test('headers, byte by byte', async (t) => {
    const { socket, answer, closed } = await open(t, client)
    socket.write('GET /public/events HTTP/1.1\r\nx: ')
    const drip = setInterval(() => socket.write('x'), 20)
    await closed
    clearInterval(drip)
    isRefused(t, answer(), 408, /did not arrive in time/)
  })

  t.test('a body', async (t) => {
    const { socket, answer, closed } = await open(t, client)
    const head = `POST /public/track HTTP/1.1\r\n${HOST}x-api-key: ${SECRET_KEY}\r\ncontent-type: application/json\r\n`
    socket.write(`${head}content-length: 1000\r\n\r\n{"event":"`)
    const drip = setInterval(() => socket.write('x'), 20)
    await closed
    clearInterval(drip)
    isRefused(t, answer(), 408, /did not arrive in time/)
    t.strictSame(await client.events(), [])
  })

  t.test('other clients are not affected', async (t) => {
    t.equal((await client.call('POST', '/public/track', { event: 'e', distinct_id: 'u' })).statusCode, 200)
  })
})

t.test('an idle client is disconnected', async (t) => {
  const clientLimits = { ...CLIENT_LIMITS, idleMs: SHORT }
  const client = await startApp(t, settings, { clientLimits })
  const { socket, closed } = await open(t, client)
  const type = 'content-type: application/json\r\n'
  socket.write(`POST /public/track HTTP/1.1\r\n${HOST}${type}content-length: 1000\r\n\r\n`)
  await closed
  const nothing = await open(t, client)
  await nothing.closed
  t.equal(await connections(client), 0)
})

t.test('a client that reads too slowly is disconnected', async (t) => {
  const clientLimits = { ...CLIENT_LIMITS, responseMs: SHORT, responseRate: 1_000_000 }
  const client = await startApp(t, settings, { clientLimits })
  const properties = { x: 'x'.repeat(900_000) }
  const events = Array.from({ length: 10 }, () => ({ event: 'e', distinct_id: 'u', properties }))
  // More than the socket buffers hold.
  t.equal((await client.call('POST', '/public/track/batch', { events })).statusCode, 200)

  const readers = [await open(t, client), await open(t, client)]
  for (const { socket } of readers) {
    socket.pause()
    socket.write(`GET /public/events?limit=1000 HTTP/1.1\r\n${HOST}x-api-key: ${SECRET_KEY}\r\n\r\n`)
  }
  await until('all to be cut off', async () => (await connections(client)) === 0)
  t.equal((await client.call('GET', '/public/events?limit=1')).statusCode, 200)
  readers[0]?.socket.resume()
  await readers[0]?.closed
  t.notMatch(readers[0]?.answer(), /"pending":\d+\}/, 'the response is incomplete')

  t.test('another client is slow, but keeps reading', async (t) => {
    const { socket, answer } = await open(t, client)
    const startedAt = Date.now()
    let read = 0
    socket.on('data', (chunk) => {
      read += chunk.length
      if (read < 1_000_000) return
      read = 0
      socket.pause()
      setTimeout(() => socket.resume(), SHORT / 5)
    })
    socket.write(`GET /public/events?limit=1000 HTTP/1.1\r\n${HOST}x-api-key: ${SECRET_KEY}\r\n\r\n`)
    await until('the whole response', () => /"pending":\d+\}/.test(answer().slice(-100)))
    // Eight pauses at least.
    t.ok(Date.now() - startedAt > SHORT)
  })
})

t.test('connections over the limit are refused', async (t) => {
  const warnings: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => warnings.push(JSON.parse(line).msg) })
  const env = { ...settings, MAX_CONNECTIONS: '2' }
  const client = await startApp(t, env, { log })
  const [first, second] = [await open(t, client), await open(t, client)]
  for (let i = 0; i < 2; i++) await (await open(t, client)).closed
  t.strictSame(warnings, ['connections are refused: MAX_CONNECTIONS are open'], 'one line per minute')
  first.socket.destroy()
  await until('the end of one', async () => (await connections(client)) === 1)
  const third = await open(t, client)
  for (const { socket, answer } of [second, third]) {
    socket.write(`GET /health/live HTTP/1.1\r\n${HOST}\r\n`)
    await until('an answer', () => answer().startsWith('HTTP/1.1 200 '))
  }
})

t.test('a connection with too many unanswered requests or too long headers is closed', async (t) => {
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => lines.push(JSON.parse(line).msg) })
  const warnings = () => lines.filter((line) => line.startsWith('connections '))
  const client = await startApp(t, settings, { log })
  const ask = (path: string, count: number) => `GET ${path} HTTP/1.1\r\n${HOST}\r\n`.repeat(count)
  const count = (answer: string) => answer.split('HTTP/1.1 200 ').length - 1

  t.test('a URL that is too long is refused', async (t) => {
    const { socket, answer, closed } = await open(t, client)
    socket.write(`GET /public/events?event=${'x'.repeat(20_000)} HTTP/1.1\r\n${HOST}\r\n`)
    await closed
    isRefused(t, answer(), 431, /over 16 KiB/)
  })

  t.test('headers that are too long for the parser are refused', async (t) => {
    const { socket, answer, closed } = await open(t, client)
    socket.write(`GET /mixpanel/track?data=${'x'.repeat(300_000)} HTTP/1.1\r\n${HOST}\r\n`)
    await closed
    isRefused(t, answer(), 431, /over 256 KiB/)
  })

  t.test('the allowed number, twice', async (t) => {
    const { socket, answer } = await open(t, client)
    for (const sum of [256, 512]) {
      socket.write(ask('/health/live', 256))
      await until('all responses', () => count(answer()) === sum)
    }
    t.strictSame(warnings(), [])
  })

  t.test('more than allowed', async (t) => {
    const empty = `POST /public/track HTTP/1.1\r\n${HOST}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`
    for (const flood of [ask('/openapi.json', 1000), ask('/health/live', 1000), empty.repeat(500)]) {
      const { socket, closed } = await open(t, client)
      const startedAt = performance.now()
      socket.write(flood)
      await closed
      // An idle connection would be closed as well, after 72 s.
      t.ok(performance.now() - startedAt < 30_000)
    }
    t.strictSame(warnings(), ['connections were closed: they had too many unanswered requests'], 'one line per minute')
  })

  t.test('other clients do not wait for them', async (t) => {
    const floods = await Promise.all(Array.from({ length: 20 }, () => open(t, client)))
    for (const [i, { socket }] of floods.entries()) socket.write(ask(i % 2 ? '/health/ready' : '/metrics', 1000))
    const { socket, answer } = await open(t, client)
    socket.write(ask('/health/live', 1))
    await until('an answer', () => count(answer()) === 1)
    const before = floods.reduce((sum, flood) => sum + count(flood.answer()), 0)
    t.ok(before < (floods.length * 1000) / 2, `${before} answers to the others came first`)
  })
})

t.test('the limit of unanswered requests holds for all connections together', async (t) => {
  const warnings: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => warnings.push(JSON.parse(line).msg) })
  const responses: ServerResponse[] = []
  const server = createServer((_request, response) => responses.push(response))
  new Connections(server, log, { maxOfAll: 16 })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets: Socket[] = []
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const ask = async (count: number, arrived: number) => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    sockets.push(socket.on('error', () => undefined).resume())
    const closed = closeOf(socket)
    socket.write(`GET / HTTP/1.1\r\n${HOST}\r\n`.repeat(count))
    await until('the requests', () => responses.length === arrived)
    return { socket, closed }
  }
  const first = await ask(10, 10)
  const second = await ask(10, 20)
  const third = await ask(10, 22)
  await third.closed
  const ordinary = await ask(2, 24)
  t.strictSame(
    [first, second, ordinary].map(({ socket }) => socket.destroyed),
    [false, false, false],
  )
  t.strictSame(warnings, ['connections were closed: they had too many unanswered requests'])

  first.socket.destroy()
  for (const response of responses.slice(10, 20)) response.end()
  await until('the end of both', () => responses.slice(0, 20).every(({ closed }) => closed))
  await ask(18, 42)
  await (await ask(10, 44)).closed
})

t.test('a client disconnects while requests wait after another one', async (t) => {
  const opened: string[] = []
  const closed: string[] = []
  const server = createServer(({ url = '' }, response) => {
    opened.push(url)
    const note = () => finished(response, (error) => closed.push(`${url} ${error?.code}`))
    // Like a handler that responds after the end of the connection.
    if (url === '/late') response.once('close', note)
    else note()
  })
  new Connections(server, pino({ level: 'silent' }))
  server.listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const paths = ['/first', '/second', '/late']
  socket.write(paths.map((path) => `GET ${path} HTTP/1.1\r\n${HOST}\r\n`).join(''))
  await until('the requests', () => opened.length === paths.length)
  socket.destroy()
  await until('the end of all responses', () => closed.length === paths.length)
  t.strictSame(closed.sort(), paths.map((path) => `${path} ERR_STREAM_PREMATURE_CLOSE`).sort())
})

t.test('long headers that do not end are refused', async (t) => {
  const KIB = 1024
  const warnings: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => warnings.push(JSON.parse(line).msg) })
  const server = createServer({ maxHeaderSize: MAX_PARSED_HEAD }, (request, response) =>
    request.resume().once('end', () => response.end()),
  )
  new HeadWatch(server, new Connections(server, log), log, { maxBytes: 300 * KIB, checkMs: 20 })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets: Socket[] = []
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const start = async (text: string) => {
    const socket = connect({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })
    sockets.push(socket.on('error', () => undefined))
    socket.write(text)
    return socket
  }
  const long = (kib: number) => `GET /?${'x'.repeat(kib * KIB)}`
  // A body is not a head, however long, and short heads do not count.
  const body = await start(`POST / HTTP/1.1\r\n${HOST}content-length: ${600 * KIB}\r\n\r\n${'x'.repeat(500 * KIB)}`)
  const short = await Promise.all(Array.from({ length: 30 }, () => start(long(14))))
  const first = await start(long(60))
  const second = await start(long(60))
  const longest = await start(long(200))
  await closeOf(longest)
  t.strictSame(
    [body, first, second, ...short].map(({ destroyed }) => destroyed),
    Array(33).fill(false),
  )
  t.match(warnings, ['connections were closed: too many long URLs and headers are being received'])
  body.write('x'.repeat(100 * KIB))
  first.write(` HTTP/1.1\r\n${HOST}\r\n`)
  for (const socket of [body, first]) t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 (200|431) /)
})
